package tollgate

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	// tlsRefusal is the text of the GOAWAY frame with which a server refuses a connection
	// without TLS.
	tlsRefusal = "this port of Tollgate requires TLS"
	// tlsRefusalBytes is the number of bytes of a connection in which this frame arrives.
	tlsRefusalBytes = 256
)

// plainText are the credentials of connections without TLS. They recognize a server that requires
// TLS, because gRPC does not pass on the text of its GOAWAY frame. Then they fail further
// connections for a while: such a server accepts each connection before it ends it, so gRPC would
// connect hundreds of times a second.
type plainText struct {
	credentials.TransportCredentials
	refusal *refusal
}

func newPlainText() plainText {
	return plainText{insecure.NewCredentials(), &refusal{}}
}

const (
	// refusalFirst is the time without a connection after a server has required TLS. It doubles
	// up to refusalLast.
	refusalFirst = time.Second
	refusalLast  = 10 * time.Second
)

// refusal records that a server requires TLS.
type refusal struct {
	mu    sync.Mutex
	until time.Time // Zero if the server does not require TLS.
	pause time.Duration
}

// known reports whether the server requires TLS.
func (r *refusal) known() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.until.IsZero()
}

// left returns the time without connections.
func (r *refusal) left() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Until(r.until)
}

// record records whether a connection was refused.
func (r *refusal) record(refused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !refused:
		r.until, r.pause = time.Time{}, 0
	case time.Now().After(r.until):
		r.pause = min(max(2*r.pause, refusalFirst), refusalLast)
		r.until = time.Now().Add(r.pause)
	}
}

// ClientHandshake returns a connection that inspects the first bytes that gRPC reads.
func (p plainText) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if left := p.refusal.left(); left > 0 {
		return nil, nil, fmt.Errorf("%s is tried again in %v", conn.RemoteAddr(), left.Round(100*time.Millisecond))
	}
	conn, info, err := p.TransportCredentials.ClientHandshake(ctx, authority, conn)
	if err != nil {
		return conn, info, err
	}
	return &firstBytes{Conn: conn, refusal: p.refusal}, info, nil
}

// Clone returns credentials that share the recorded refusal.
func (p plainText) Clone() credentials.TransportCredentials {
	return plainText{p.TransportCredentials.Clone(), p.refusal}
}

// firstBytes is a connection that looks for the refusal of a server. gRPC reads it from one
// goroutine.
type firstBytes struct {
	net.Conn
	refusal *refusal
	read    []byte
}

// Read implements net.Conn.
func (f *firstBytes) Read(into []byte) (int, error) {
	n, err := f.Conn.Read(into)
	if len(f.read) < tlsRefusalBytes {
		f.read = append(f.read, into[:min(n, tlsRefusalBytes-len(f.read))]...)
		if refused := bytes.Contains(f.read, []byte(tlsRefusal)); refused || len(f.read) >= tlsRefusalBytes {
			f.refusal.record(refused)
		}
	}
	return n, err
}
