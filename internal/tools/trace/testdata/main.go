// Command main runs the calls of callcost on SQLite and prints which traced functions each crosses.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path"
	"path/filepath"
	"text/tabwriter"

	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/callcost"
	"github.com/sojourn-queue/sojourn/internal/probe"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

const (
	warmUp = 5
	traced = 10
)

func main() {
	list := flag.Bool("v", false, "list the functions")
	flag.Parse()
	fewest, err := trace(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CALL\tFUNCTIONS\tFILES\tPACKAGES")
	for _, c := range callcost.Calls {
		files, packages := map[string]bool{}, map[string]bool{}
		for _, f := range fewest[c.Name] {
			file := probe.Functions[f].File
			files[file], packages[path.Dir(file)] = true, true
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\n", c.Name, len(fewest[c.Name]), len(files), len(packages))
	}
	table.Flush()
	if !*list {
		return
	}
	for _, c := range callcost.Calls {
		fmt.Printf("\n%s\n", c.Name)
		for _, f := range fewest[c.Name] {
			fmt.Printf("  %s: %s\n", probe.Functions[f].File, probe.Functions[f].Name)
		}
	}
}

// trace returns the functions of each call, from the one of several lives that crossed the fewest:
// other work of the store runs beside some of them.
func trace(ctx context.Context) (fewest map[string][]int, err error) {
	dir, err := os.MkdirTemp("", "trace")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	c, err := sqlite.Open(filepath.Join(dir, "jobs.db"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	fewest = map[string][]int{}
	for life := range warmUp + traced {
		err := callcost.Life(ctx, driver.Of(c), life+1, func(call string, run func() error) error {
			functions, err := probe.During(run)
			if seen, ok := fewest[call]; life >= warmUp && (!ok || len(functions) < len(seen)) {
				fewest[call] = functions
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return fewest, nil
}
