package wire

import "github.com/sojourn-queue/sojourn/store/config"

// ConfigAnswer lists settings of the store.
type ConfigAnswer struct {
	Settings []config.Setting `json:"settings"`
}

// ConfigValue is a value for a setting of the store.
type ConfigValue struct {
	Value string `json:"value" doc:"at most 4,096 bytes"`
	By    string `json:"by,omitempty" doc:"who; shown after the id of the token"`
}
