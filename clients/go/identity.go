package tollgate

import "crypto/rand"

// unique returns an id for a request or an owner that no other caller uses.
func unique() string {
	return rand.Text()
}
