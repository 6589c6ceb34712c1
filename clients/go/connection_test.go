package tollgate

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	pb "github.com/tollgate/tollgate/clients/go/tollgatepb"
)

func answersPool(int, proto.Message) (proto.Message, error) {
	return &pb.GetPoolResponse{Pool: &pb.Pool{Pool: "p"}}, nil
}

// sent returns a value of the metadata of the last request.
func (f *fake) sent(name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	values := f.metadata[len(f.metadata)-1].Get(name)
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

func TestTokenAndNamespaceAreSent(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := newFake(t, answersPool)
	config := testConfig(server.address)
	must(newClient(t, config).Pool("p").Status(ctx))(t)
	equal(t, "token", server.sent("authorization"), "")
	equal(t, "namespace", server.sent("x-tollgate-namespace"), "")

	config.Token, config.Namespace = "one", "team"
	must(newClient(t, config).Pool("p").Status(ctx))(t)
	equal(t, "token", server.sent("authorization"), "Bearer one")
	equal(t, "namespace", server.sent("x-tollgate-namespace"), "team")

	file := filepath.Join(t.TempDir(), "token")
	config.Token, config.TokenFile = "", file
	client := newClient(t, config)
	for _, token := range []string{"first", "second"} {
		if err := os.WriteFile(file+".new", []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
		must(client.Pool("p").Status(ctx))(t)
		equal(t, "token", server.sent("authorization"), "Bearer "+token)
	}

	config.TokenFile = ""
	config.TokenSource = func(context.Context) (string, error) { return "called", nil }
	must(newClient(t, config).Pool("p").Status(ctx))(t)
	equal(t, "token", server.sent("authorization"), "Bearer called")
	config.TokenSource = func(context.Context) (string, error) { return "", errors.New("no token today") }
	_, err := newClient(t, config).Pool("p").Status(ctx)
	var failed *Error
	if !errors.As(err, &failed) || failed.Code != codes.Unauthenticated {
		t.Errorf("error is %v", err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for _, config := range []Config{
		{}, {Addresses: []string{"x:1"}, Token: "a", TokenFile: "b"}, {Addresses: []string{"x:1"}, Deadline: -1},
	} {
		if _, err := New(config); err == nil {
			t.Errorf("%+v is accepted", config)
		}
	}
}

func TestValuesThatNoHeaderCarriesAreBadFields(t *testing.T) {
	t.Parallel()
	for field, config := range map[string]Config{
		"token":     {Addresses: []string{"x:1"}, Token: "two\nlines"},
		"namespace": {Addresses: []string{"x:1"}, Namespace: "\x7f"},
	} {
		_, err := New(config)
		var failed *Error
		if !errors.As(err, &failed) || failed.Code != codes.InvalidArgument || len(failed.Violations) != 1 {
			t.Fatalf("%s: the error is %v", field, err)
		}
		equal(t, "field", failed.Violations[0].Field, field)
	}
	server := newFake(t, answersPool)
	config := testConfig(server.address)
	config.TokenSource = func(context.Context) (string, error) { return "über", nil }
	_, err := newClient(t, config).Pool("p").Status(context.Background())
	var failed *Error
	if !errors.As(err, &failed) || failed.Code != codes.Unauthenticated {
		t.Errorf("the error is %v", err)
	}
	equal(t, "requests", server.count(), 0)
}

func TestServersThatAreNotServingAreSkipped(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	serving, other := newFake(t, answersPool), newFake(t, answersPool)
	other.health.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
	client := newClient(t, testConfig(serving.address, other.address))
	for range 20 {
		must(client.Pool("p").Status(ctx))(t)
	}
	equal(t, "requests of the server that is not serving", other.count(), 0)

	other.health.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
	eventually(t, "both servers are called", func() bool {
		must(client.Pool("p").Status(ctx))(t)
		return other.count() > 0
	})
	serving.health.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
	other.health.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
	eventually(t, "a server is called although none is serving", func() bool {
		before := client.main.pick()
		must(client.Pool("p").Status(ctx))(t)
		return before.conn() == before.any
	})
}

func TestCallsFailOverToAnotherServer(t *testing.T) {
	t.Parallel()
	serving := newFake(t, answersPool)
	client := newClient(t, testConfig(freeAddress(), serving.address))
	for range 10 {
		must(client.Pool("p").Status(context.Background()))(t)
	}
	equal(t, "requests", serving.count(), 10)
}

func TestCallsAfterCloseFail(t *testing.T) {
	t.Parallel()
	client := newClient(t, testConfig(shared))
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	for _, option := range []LeaseOption{WithWait(time.Second), WithWait(0)} {
		_, err := client.Pool("p").Admit(context.Background(), "d", "t", option)
		var failed *Error
		if !errors.As(err, &failed) || failed.Code != codes.Canceled {
			t.Errorf("error is %v", err)
		}
	}
}

// certificate writes a certificate that signs itself, for a server and a client of the name.
func certificate(t *testing.T, name string) (cert, key string, pair tls.Certificate) {
	t.Helper()
	private := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der := must(x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private))(t)
	secret := must(x509.MarshalECPrivateKey(private))(t)
	cert, key = filepath.Join(t.TempDir(), "cert"), filepath.Join(t.TempDir(), "key")
	for file, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key, must(tls.LoadX509KeyPair(cert, key))(t)
}

func TestMutualTLS(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	cert, key, pair := certificate(t, "tollgate.example")
	authorities := x509.NewCertPool()
	authorities.AddCert(must(x509.ParseCertificate(pair.Certificate[0]))(t))
	server := newFake(t, answersPool, grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: authorities, ClientAuth: tls.RequireAndVerifyClientCert,
	})))
	config := testConfig(server.address)
	config.RetryFor = time.Millisecond
	config.TLS = must(LoadTLS(cert, cert, key, "tollgate.example"))(t)
	must(newClient(t, config).Pool("p").Status(ctx))(t)
	for name, bad := range map[string]*tls.Config{
		"another name": must(LoadTLS(cert, cert, key, "other.example"))(t),
		"no client":    must(LoadTLS(cert, "", "", "tollgate.example"))(t),
		"plain text":   nil,
	} {
		config.TLS = bad
		if _, err := newClient(t, config).Pool("p").Status(ctx); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := LoadTLS(key, "", "", ""); err == nil {
		t.Error("a file without a certificate is accepted")
	}
}
