package tollgate

import (
	"log/slog"
	"sync"
	"time"
)

const (
	// checkLogPeriod is the time between two lines about the same policy and effect.
	checkLogPeriod = 10 * time.Second
	// checkLogKinds is the number of kinds of lines. All further kinds share one limit.
	checkLogKinds = 100
)

// checkLog logs checks that were not decided: at most one line in 10 s for each policy and
// effect. A separate log would grow as fast as the requests of a web server.
type checkLog struct {
	logger *slog.Logger // Nil: the default one at the time of the line.

	mu    sync.Mutex
	kinds map[checkKind]*checkPace
}

type checkKind struct{ policy, effect string }

type checkPace struct {
	next       time.Time
	suppressed int
}

func newCheckLog(logger *slog.Logger) *checkLog {
	return &checkLog{logger: logger, kinds: map[checkKind]*checkPace{}}
}

// undecided logs a check of a policy, and what happens to its call.
func (l *checkLog) undecided(policy, effect string, err error) {
	suppressed, due := l.due(checkKind{policy, effect}, time.Now())
	if !due {
		return
	}
	logger := l.logger
	if logger == nil {
		logger = slog.Default()
	}
	logger.Warn("tollgate: a rate could not be checked",
		"policy", policy, "effect", effect, "error", err.Error(), "suppressed", suppressed)
}

// due reports whether a line may be logged, and the number of lines suppressed before it.
func (l *checkLog) due(kind checkKind, now time.Time) (int, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	pace := l.kinds[kind]
	if pace == nil {
		if len(l.kinds) >= checkLogKinds {
			kind = checkKind{}
		}
		if pace = l.kinds[kind]; pace == nil {
			pace = &checkPace{}
			l.kinds[kind] = pace
		}
	}
	if now.Before(pace.next) {
		pace.suppressed++
		return 0, false
	}
	suppressed := pace.suppressed
	pace.next, pace.suppressed = now.Add(checkLogPeriod), 0
	return suppressed, true
}
