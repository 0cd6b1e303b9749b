package orders

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// proxy is a `lostack proxy` that stands already: its API is at LOSTACK_PROXY.
type proxy struct {
	route     string
	bootstrap string
}

// ask sends a request to the API, and returns the status and the answer.
func ask(t *testing.T, method, path string, body any) (int, map[string]any) {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequest(method, os.Getenv("LOSTACK_PROXY")+path, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("LOSTACK_PROXY_SECRET"))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer := map[string]any{}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, answer
}

// inFrontOf adds a route to the Kafka of this test. With Testcontainers: the container's broker.
func inFrontOf(t *testing.T, kafka string) proxy {
	t.Helper()
	status, route := ask(t, "POST", "/routes", map[string]any{"upstream": kafka})
	if status != http.StatusCreated {
		t.Fatal(route["error"])
	}
	return proxy{route["route"].(string), route["bootstrap"].(string)}
}

// arm asks for a fault. A fault that has not struck fails the test.
func (p proxy) arm(t *testing.T, fault map[string]any) {
	t.Helper()
	fault["route"] = p.route
	status, armed := ask(t, "POST", "/faults", fault)
	if status != http.StatusCreated {
		t.Fatal(armed["error"])
	}
	t.Cleanup(func() {
		if status, ended := ask(t, "DELETE", "/faults/"+armed["id"].(string), nil); status != http.StatusOK {
			t.Error(ended["error"])
		}
	})
}

func TestAnAnswerIsLost(t *testing.T) {
	proxy := inFrontOf(t, os.Getenv("KAFKA"))
	for _, each := range []struct {
		name    string
		options []kgo.Opt
		want    []int
	}{
		{"idempotent", nil, []int{16, 17, 18}},
		{"not idempotent", []kgo.Opt{kgo.DisableIdempotentWrite()}, []int{16, 17, 17, 18}},
	} {
		t.Run(each.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			topic := fmt.Sprintf("orders-%d", time.Now().UnixNano())
			proxy.arm(t, map[string]any{
				"do": "lose", "api": "Produce", "answer": true,
				"topic": topic, "record": map[string]any{"order": 17},
			})
			if err := Place(ctx, proxy.bootstrap, topic, []int{16, 17, 18}, each.options...); err != nil {
				t.Fatal(err)
			}
			found, err := Read(ctx, proxy.bootstrap, topic, 18)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(found, each.want) {
				t.Errorf("orders %v, not %v", found, each.want)
			}
		})
	}
}
