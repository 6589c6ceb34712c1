// Command runner plays the common scenarios with the client library: it reads commands from
// standard input and writes answers to standard output (clients/scenarios/README.md).
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	tollgate "github.com/tollgate/tollgate/clients/go"
)

// runner has the objects that commands name.
type runner struct {
	calls atomic.Int64

	out     sync.Mutex
	encoder *json.Encoder

	mu      sync.Mutex
	clients map[string]*tollgate.Client
	objects map[string]any
	running map[string]context.CancelFunc
}

type handler func(r *runner, ctx context.Context, c *command) (fields, error)

func main() {
	r := &runner{
		encoder: json.NewEncoder(os.Stdout),
		clients: map[string]*tollgate.Client{},
		objects: map[string]any{},
		running: map[string]context.CancelFunc{},
	}
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 64<<20)
	for input.Scan() {
		c := &command{Connection: "main"}
		if err := json.Unmarshal(input.Bytes(), c); err != nil {
			fmt.Fprintf(os.Stderr, "bad command %s: %v\n", input.Bytes(), err)
			os.Exit(1)
		}
		if c.Do == "quit" {
			r.write(fields{"id": c.ID, "answer": fields{}})
			return
		}
		// The context outlives the command: permits descend from it.
		ctx, cancel := context.WithCancel(context.Background())
		r.mu.Lock()
		r.running[string(c.ID)] = cancel
		r.mu.Unlock()
		go r.play(ctx, c)
	}
}

// play performs a command and writes its answer.
func (r *runner) play(ctx context.Context, c *command) {
	answer := fields{}
	var err error
	if do, known := handlers[c.Do]; known {
		answer, err = do(r, ctx, c)
	} else {
		err = fmt.Errorf("unknown command %q", c.Do)
	}
	r.mu.Lock()
	delete(r.running, string(c.ID))
	r.mu.Unlock()
	if err != nil {
		r.write(fields{"id": c.ID, "error": errorFields(err)})
		return
	}
	if answer == nil {
		answer = fields{}
	}
	r.write(fields{"id": c.ID, "answer": answer})
}

// write writes an answer or an event.
func (r *runner) write(line fields) {
	r.out.Lock()
	defer r.out.Unlock()
	if err := r.encoder.Encode(line); err != nil {
		fmt.Fprintf(os.Stderr, "cannot write: %v\n", err)
		os.Exit(1)
	}
}

func (r *runner) client(c *command) (*tollgate.Client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	client := r.clients[c.Connection]
	if client == nil {
		return nil, fmt.Errorf("no connection %q", c.Connection)
	}
	return client, nil
}

// keep stores an object by the handle of the command. It returns the object that it replaces.
func (r *runner) keep(c *command, object any) any {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.objects[c.Handle]
	r.objects[c.Handle] = object
	return old
}

// object returns the object with the handle of the command.
func object[T any](r *runner, c *command) (T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, known := r.objects[c.Handle].(T)
	if !known {
		return found, fmt.Errorf("no %T %q", found, c.Handle)
	}
	return found, nil
}

// with calls a function with the client of the command.
func with(do func(r *runner, ctx context.Context, client *tollgate.Client, c *command) (fields, error)) handler {
	return func(r *runner, ctx context.Context, c *command) (fields, error) {
		client, err := r.client(c)
		if err != nil {
			return nil, err
		}
		return do(r, ctx, client, c)
	}
}

// on calls a function with the object that the command names.
func on[T any](do func(r *runner, ctx context.Context, object T, c *command) (fields, error)) handler {
	return func(r *runner, ctx context.Context, c *command) (fields, error) {
		found, err := object[T](r, c)
		if err != nil {
			return nil, err
		}
		return do(r, ctx, found, c)
	}
}
