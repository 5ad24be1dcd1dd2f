package charttest

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	compose "github.com/compose-spec/compose-go/v2/cli"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

func TestDockerfile(t *testing.T) {
	f, err := os.Open("../deploy/docker/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tree, err := parser.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range tree.Warnings {
		t.Errorf("warning: %s", w.Short)
	}
	lint := linter.New(&linter.Config{Warn: func(rule, _, _, message string, _ []parser.Range) { t.Errorf("%s: %s", rule, message) }})
	stages, _, err := instructions.Parse(tree.AST, lint)
	if err != nil {
		t.Fatal(err)
	}
	last := stages[len(stages)-1]
	if last.BaseName != "scratch" {
		t.Errorf("the image is based on %s", last.BaseName)
	}
	var user, health, entry, command []string
	for _, c := range last.Commands {
		switch c := c.(type) {
		case *instructions.UserCommand:
			user = []string{c.User}
		case *instructions.HealthCheckCommand:
			health = c.Health.Test
		case *instructions.EntrypointCommand:
			entry = c.CmdLine
		case *instructions.CmdCommand:
			command = c.CmdLine
		case *instructions.RunCommand:
			t.Errorf("the image has no shell for RUN %v", c.CmdLine)
		}
	}
	if len(user) == 0 || strings.HasPrefix(user[0], "0") || strings.HasPrefix(user[0], "root") {
		t.Errorf("the user is %v", user)
	}
	if !slices.Equal(health, []string{"CMD", "/usr/bin/sojourn", "health"}) || !slices.Equal(entry, []string{"/usr/bin/sojourn"}) || !slices.Equal(command, []string{"serve"}) {
		t.Errorf("health check %v, entry point %v, command %v", health, entry, command)
	}
}

func TestCompose(t *testing.T) {
	path, err := filepath.Abs("../deploy/docker/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	options, err := compose.NewProjectOptions([]string{path}, compose.WithProfiles([]string{"postgres"}), compose.WithConsistency(true))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if got := project.ServiceNames(); !slices.Equal(got, []string{"postgres", "sojourn", "sojourn-postgres"}) {
		t.Errorf("services %v", got)
	}
	for name, s := range project.Services {
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s listens on %q of the host", name, p.HostIP)
			}
		}
		if name != "postgres" && (!s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"})) {
			t.Errorf("%s may do more than it needs", name)
		}
	}
	if d := project.Services["sojourn-postgres"].DependsOn["postgres"]; d.Condition != "service_healthy" {
		t.Errorf("sojourn-postgres waits for %+v", d)
	}
}
