package tollgate

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"

	"google.golang.org/grpc/codes"
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

// plainText are the credentials of connections without TLS. They notice a server that requires
// TLS, because gRPC does not pass on the text of its GOAWAY frame.
type plainText struct {
	credentials.TransportCredentials
	refused *atomic.Bool
}

func newPlainText() plainText {
	return plainText{insecure.NewCredentials(), new(atomic.Bool)}
}

// ClientHandshake returns a connection that inspects the first bytes that gRPC reads.
func (p plainText) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := p.TransportCredentials.ClientHandshake(ctx, authority, conn)
	if err != nil {
		return conn, info, err
	}
	return &firstBytes{Conn: conn, refused: p.refused}, info, nil
}

// Clone returns credentials that share what was noticed.
func (p plainText) Clone() credentials.TransportCredentials {
	return plainText{p.TransportCredentials.Clone(), p.refused}
}

// explain adds to the error of a call that the servers require TLS.
func (p plainText) explain(e *Error) {
	if p.refused.Load() && (e.Code == codes.Unavailable || e.Code == codes.DeadlineExceeded) {
		e.Message += "; the server requires TLS: set Config.TLS"
	}
}

// firstBytes is a connection that looks for the refusal of a server. gRPC reads it from one
// goroutine.
type firstBytes struct {
	net.Conn
	refused *atomic.Bool
	read    []byte
}

// Read implements net.Conn.
func (f *firstBytes) Read(into []byte) (int, error) {
	n, err := f.Conn.Read(into)
	if len(f.read) < tlsRefusalBytes {
		f.read = append(f.read, into[:min(n, tlsRefusalBytes-len(f.read))]...)
		f.refused.Store(bytes.Contains(f.read, []byte(tlsRefusal)))
	}
	return n, err
}
