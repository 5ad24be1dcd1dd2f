package charttest

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

const folder = "../deploy/chart"

// values is a tree of values of the chart.
type values = map[string]any

func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.LoadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return c
}

// render returns the documents that the chart makes, by kind, each decoded strictly.
func render(t *testing.T, v values) (map[string]any, error) {
	t.Helper()
	c := load(t)
	options := chartutil.ReleaseOptions{Name: "jobs", Namespace: "queue", IsInstall: true, Revision: 1}
	all, err := chartutil.ToRenderValues(c, v, options, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	found := map[string]any{}
	for name, text := range files {
		if !strings.HasSuffix(name, ".yaml") || strings.TrimSpace(text) == "" {
			continue
		}
		var head struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal([]byte(text), &head); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		into, known := map[string]any{
			"apps/v1 StatefulSet": &apps.StatefulSet{}, "apps/v1 Deployment": &apps.Deployment{}, "v1 Service": &core.Service{},
			"policy/v1 PodDisruptionBudget": &policy.PodDisruptionBudget{}, "monitoring.coreos.com/v1 ServiceMonitor": &monitoring.ServiceMonitor{},
		}[head.APIVersion+" "+head.Kind]
		if !known {
			t.Fatalf("%s: unexpected %s %s", name, head.APIVersion, head.Kind)
		}
		if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
		if found[head.Kind] != nil {
			t.Errorf("%s: a second %s", name, head.Kind)
		}
		found[head.Kind] = into
	}
	return found, nil
}

func kinds(found map[string]any) (names []string) {
	for k := range found {
		names = append(names, k)
	}
	slices.Sort(names)
	return names
}

func TestSQLite(t *testing.T) {
	found, err := render(t, values{})
	if err != nil {
		t.Fatal(err)
	}
	if got := kinds(found); !slices.Equal(got, []string{"Service", "StatefulSet"}) {
		t.Fatalf("the chart makes %v", got)
	}
	set := found["StatefulSet"].(*apps.StatefulSet)
	if *set.Spec.Replicas != 1 || len(set.Spec.VolumeClaimTemplates) != 1 {
		t.Errorf("%d pods and %d volumes, want 1 and 1", *set.Spec.Replicas, len(set.Spec.VolumeClaimTemplates))
	}
	checkPod(t, set.Spec.Template, set.Spec.Selector.MatchLabels, found["Service"].(*core.Service))
	if got := variable(set.Spec.Template, "SOJOURN_URL").Value; got != "sqlite:/data/sojourn.db" {
		t.Errorf("SOJOURN_URL is %q", got)
	}
}

func TestPostgres(t *testing.T) {
	found, err := render(t, values{"replicas": 3, "store": values{"type": "postgres", "postgres": values{"secretName": "db"}},
		"settings": values{"SOJOURN_RATE": "500"}, "serviceMonitor": values{"enabled": true, "tokenSecretName": "metrics"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := kinds(found); !slices.Equal(got, []string{"Deployment", "PodDisruptionBudget", "Service", "ServiceMonitor"}) {
		t.Fatalf("the chart makes %v", got)
	}
	deployment := found["Deployment"].(*apps.Deployment)
	labels := deployment.Spec.Selector.MatchLabels
	if *deployment.Spec.Replicas != 3 {
		t.Errorf("%d pods, want 3", *deployment.Spec.Replicas)
	}
	service := found["Service"].(*core.Service)
	checkPod(t, deployment.Spec.Template, labels, service)
	if from := variable(deployment.Spec.Template, "SOJOURN_URL").ValueFrom; from == nil || from.SecretKeyRef.Name != "db" || from.SecretKeyRef.Key != "url" {
		t.Errorf("SOJOURN_URL is from %+v", from)
	}
	if got := variable(deployment.Spec.Template, "SOJOURN_RATE").Value; got != "500" {
		t.Errorf("SOJOURN_RATE is %q", got)
	}
	if got := found["PodDisruptionBudget"].(*policy.PodDisruptionBudget).Spec.Selector.MatchLabels; !within(got, deployment.Spec.Template.Labels) {
		t.Errorf("the budget selects %v, and the pods have %v", got, deployment.Spec.Template.Labels)
	}
	monitor := found["ServiceMonitor"].(*monitoring.ServiceMonitor).Spec
	if !within(monitor.Selector.MatchLabels, service.Labels) {
		t.Errorf("the monitor selects %v, and the service has %v", monitor.Selector.MatchLabels, service.Labels)
	}
	if e := monitor.Endpoints[0]; e.Port != service.Spec.Ports[0].Name || e.Path != "/metrics" || e.Authorization.Credentials.Name != "metrics" {
		t.Errorf("the monitor scrapes %+v", e)
	}
}

// checkPod checks what the pods of both kinds have in common.
func checkPod(t *testing.T, pod core.PodTemplateSpec, selector map[string]string, service *core.Service) {
	t.Helper()
	c := pod.Spec.Containers[0]
	if !within(selector, pod.Labels) || !within(service.Spec.Selector, pod.Labels) {
		t.Errorf("the pods have the labels %v, selected are %v and %v", pod.Labels, selector, service.Spec.Selector)
	}
	port := c.Ports[0].Name
	for name, p := range map[string]*core.Probe{"startup": c.StartupProbe, "liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
		if p == nil || p.HTTPGet == nil || p.HTTPGet.Port.StrVal != port {
			t.Errorf("the %s probe is %+v", name, p)
		}
	}
	if c.ReadinessProbe.HTTPGet.Path != "/readyz" || c.LivenessProbe.HTTPGet.Path != "/livez" {
		t.Error("the liveness probe must not depend on the store, and the readiness probe must")
	}
	if service.Spec.Ports[0].TargetPort.StrVal != port {
		t.Errorf("the service sends to %v, and the port is %s", service.Spec.Ports[0].TargetPort, port)
	}
	s := c.SecurityContext
	if *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !*pod.Spec.SecurityContext.RunAsNonRoot || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) {
		t.Errorf("the container may do more than it needs: %+v", s)
	}
	volumes := map[string]bool{"data": true}
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = true
	}
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("the volume %s is missing", m.Name)
		}
	}
	seen := map[string]bool{}
	for _, e := range c.Env {
		if seen[e.Name] || !strings.HasPrefix(e.Name, "SOJOURN_") {
			t.Errorf("the variable %s is wrong or given twice", e.Name)
		}
		seen[e.Name] = true
	}
}

func variable(pod core.PodTemplateSpec, name string) core.EnvVar {
	for _, e := range pod.Spec.Containers[0].Env {
		if e.Name == name {
			return e
		}
	}
	return core.EnvVar{}
}

func within(part, all map[string]string) bool {
	for k, v := range part {
		if all[k] != v {
			return false
		}
	}
	return len(part) > 0
}

func TestWrongValuesAreRefused(t *testing.T) {
	for name, v := range map[string]values{
		"an unknown name":            {"replica": 2},
		"an unknown store":           {"store": values{"type": "mysql"}},
		"postgres without a secret":  {"store": values{"type": "postgres"}},
		"a monitor without a token":  {"serviceMonitor": values{"enabled": true}},
		"a setting that is a number": {"settings": values{"SOJOURN_RATE": 500}},
	} {
		if _, err := render(t, v); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

var number = regexp.MustCompile(`(?m)^const Number = "([^"]+)"$`)

func TestVersionOfTheChart(t *testing.T) {
	text, err := os.ReadFile("../../version/version.go")
	if err != nil {
		t.Fatal(err)
	}
	want := number.FindStringSubmatch(string(text))[1]
	if m := load(t).Metadata; m.Version != want || m.AppVersion != want {
		t.Errorf("the chart has the versions %s and %s, want %s", m.Version, m.AppVersion, want)
	}
}
