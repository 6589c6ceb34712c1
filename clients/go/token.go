package tollgate

import (
	"context"
	"os"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// caller adds token and namespace to every request. It implements
// credentials.PerRPCCredentials.
type caller struct {
	token     func(ctx context.Context) (string, error)
	namespace string
}

func newCaller(config Config) *caller {
	c := &caller{namespace: config.Namespace}
	switch {
	case config.Token != "":
		c.token = func(context.Context) (string, error) { return config.Token, nil }
	case config.TokenFile != "":
		file := &tokenFile{path: config.TokenFile}
		c.token = file.read
	case config.TokenSource != nil:
		c.token = config.TokenSource
	}
	return c
}

// GetRequestMetadata returns the metadata of a request.
func (c *caller) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	metadata := make(map[string]string, 2)
	if c.namespace != "" {
		metadata["x-tollgate-namespace"] = c.namespace
	}
	if c.token == nil {
		return metadata, nil
	}
	token, err := c.token(ctx)
	if err != nil {
		return nil, status.Errorf(codes.Unauthenticated, "no token: %v", err)
	}
	if !isPrintable(token) {
		return nil, status.Error(codes.Unauthenticated, "no token: expected "+printable)
	}
	metadata["authorization"] = "Bearer " + token
	return metadata, nil
}

// printable describes the values that a header can carry.
const printable = "printable ASCII characters"

func isPrintable(value string) bool {
	for _, c := range []byte(value) {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// RequireTransportSecurity allows connections in plain text, for example to a sidecar.
func (c *caller) RequireTransportSecurity() bool {
	return false
}

// tokenFile reads a token from a file and keeps it until the file changes.
type tokenFile struct {
	path string

	mu    sync.Mutex
	info  os.FileInfo
	token string
}

func (f *tokenFile) read(context.Context) (string, error) {
	info, err := os.Stat(f.path)
	if err != nil {
		return "", err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.info != nil && os.SameFile(f.info, info) && f.info.ModTime().Equal(info.ModTime()) && f.info.Size() == info.Size() {
		return f.token, nil
	}
	text, err := os.ReadFile(f.path)
	if err != nil {
		return "", err
	}
	f.info, f.token = info, strings.TrimSpace(string(text))
	return f.token, nil
}
