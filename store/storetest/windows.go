package storetest

import "github.com/sojourn-queue/sojourn"

// office is open when a case begins: it is Monday, 09:00 UTC.
var office = sojourn.Window{Days: []string{"mon-fri"}, Start: "08:00", End: "17:00"}

// evening opens 13 hours later.
var evening = sojourn.Window{Start: "22:00", End: "23:00"}
