// Package ui serves the web page of a store: what waits, why, and the actions of operators.
//
// The pages are HTML that the server renders. They need no program beside this one, load nothing
// from another host, and work without JavaScript; with it they follow the store once a second. All
// links are relative, so the handler may be mounted under any path:
//
//	http.Handle("/ui/", http.StripPrefix("/ui", ui.New(client, ui.Options{AnyHost: true})))
//
// A program that mounts it does its own authentication in front of it. "sojourn serve" sets
// Options.API instead: people sign in with access tokens, and each call of a page goes through the
// HTTP API with the token of its reader, which checks the grants, limits the rate and writes the
// audit log.
package ui
