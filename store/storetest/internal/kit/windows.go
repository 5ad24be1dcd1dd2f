package kit

import "github.com/sojourn-queue/sojourn"

// Office is open when a case begins: it is Monday, 09:00 UTC.
var Office = sojourn.Window{Days: []string{"mon-fri"}, Start: "08:00", End: "17:00"}

// Evening opens 13 hours later.
var Evening = sojourn.Window{Start: "22:00", End: "23:00"}
