package workcmd

import (
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/worker/httpjob"
)

// callFlags are the flags of work about the kind http.
type callFlags struct {
	on, allowHTTP bool
	cidrs         []string
	ports         []uint
	timeout       time.Duration
}

func (f *callFlags) register(fl *pflag.FlagSet) {
	fl.BoolVar(&f.on, "http", false, "also run jobs of the built-in kind http, which send a request; then --kind and a program are optional")
	fl.BoolVar(&f.allowHTTP, "allow-http", false, "for the kind http: also allow plain http, on port 80")
	fl.StringArrayVar(&f.cidrs, "allow-cidr", nil, "for the kind http: allow this non-public `NETWORK`, such as 10.0.0.0/8; may be repeated")
	fl.UintSliceVar(&f.ports, "allow-port", nil, "for the kind http: allow this `PORT` in addition to 443; may be repeated")
	fl.DurationVar(&f.timeout, "http-timeout", httpjob.DefaultTimeout, "for the kind http: time limit of a request, up to 10m")
}

// caller sends the requests of jobs; nil if it is not asked for. The secrets that sign them are not
// given as flags, because those show in the list of processes.
func (a *app) caller(f callFlags) (*httpjob.Caller, error) {
	o := httpjob.Options{AllowHTTP: f.allowHTTP, Timeout: f.timeout}
	if !f.on {
		if f.allowHTTP || len(f.cidrs) > 0 || len(f.ports) > 0 {
			return nil, sojourn.Invalid("http", "--allow-http, --allow-cidr and --allow-port need --http; give --http too")
		}
		return nil, nil
	}
	for _, text := range f.cidrs {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, sojourn.Invalid("allow-cidr", "%.64q is not a network; use a form such as 10.0.0.0/8 or 10.1.2.3/32", text)
		}
		o.AllowCIDR = append(o.AllowCIDR, p)
	}
	for _, n := range f.ports {
		if n == 0 || n > 65535 {
			return nil, sojourn.Invalid("allow-port", "%d is not a port; use 1 to 65535", n)
		}
		o.AllowPorts = append(o.AllowPorts, uint16(n))
	}
	const variable = "SOJOURN_HTTP_SECRETS"
	secrets := a.Env(variable)
	if file := a.Env(variable + "_FILE"); secrets == "" && file != "" {
		var err error
		if secrets, err = a.ReadSecret(variable+"_FILE", file); err != nil {
			return nil, err
		}
	}
	for _, text := range strings.Fields(secrets) {
		s, err := httpjob.ParseSecret(text)
		if err != nil {
			return nil, err
		}
		o.Secrets = append(o.Secrets, s)
	}
	return httpjob.New(o)
}
