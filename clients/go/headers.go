package tollgate

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// SetHeaders sets the headers RateLimit and RateLimit-Policy of
// draft-ietf-httpapi-ratelimit-headers with all limits of the answer, and Retry-After on a
// refusal.
func (a RateAnswer) SetHeaders(header http.Header) {
	var limits, policies []string
	for _, l := range a.Limits {
		name := headerName(l.Name)
		limits = append(limits, name+";r="+strconv.FormatUint(l.Remaining, 10)+";t="+seconds(l.ResetAfter))
		policy := name + ";q=" + strconv.FormatUint(l.Max, 10)
		if l.Window > 0 {
			policy += ";w=" + seconds(l.Window)
		}
		policies = append(policies, policy)
	}
	if len(limits) > 0 {
		header.Set("RateLimit", strings.Join(limits, ", "))
		header.Set("RateLimit-Policy", strings.Join(policies, ", "))
	}
	if !a.Allowed {
		header.Set("Retry-After", seconds(max(a.RetryAfter, time.Second)))
	}
}

// headerName returns the name of a limit as a quoted string of a structured field. Such
// strings are ASCII, so other bytes are percent-encoded.
func headerName(name string) string {
	if name == "" {
		name = "default"
	}
	var text strings.Builder
	text.WriteByte('"')
	for _, b := range []byte(name) {
		switch {
		case b == '"' || b == '\\':
			text.WriteByte('\\')
			text.WriteByte(b)
		case b < ' ' || b > '~':
			fmt.Fprintf(&text, "%%%02X", b)
		default:
			text.WriteByte(b)
		}
	}
	text.WriteByte('"')
	return text.String()
}

// seconds returns whole seconds, rounded up.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64(math.Ceil(d.Seconds())), 10)
}
