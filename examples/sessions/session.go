package main

import (
	"encoding/json"
	"errors"
	"maps"
	"time"

	"github.com/peerage-go/peerage/sharding"
)

// errNoSession is the reply to the use of a session that has expired, or never was.
var errNoSession = errors.New("no such session: log in")

// action is the message to a session. With a User it logs in, with End it logs out; else
// it uses the session, and sets what Set holds.
type action struct {
	User string
	Set  map[string]string
	End  bool
}

// session is the entity. Its id is the secret token of the session.
type session struct {
	lifetime time.Duration
	User     string
	Values   map[string]string
	Until    time.Time // by the clock of the node that wrote it
}

// Handle handles one action, and returns the values of the session.
func (s *session) Handle(ctx *sharding.Context, a action) (map[string]string, error) {
	now := time.Now()
	switch {
	case a.User != "":
		s.User, s.Values = a.User, map[string]string{"user": a.User}
	case s.User == "" || now.After(s.Until):
		s.endSession(ctx)
		return nil, errNoSession
	case a.End:
		s.endSession(ctx)
		return nil, nil
	}
	maps.Copy(s.Values, a.Set)
	s.Until = now.Add(s.lifetime)
	return maps.Clone(s.Values), ctx.After("expire", s.lifetime)
}

// OnStart sets the timer of a session that has moved, or has survived a crash.
func (s *session) OnStart(ctx *sharding.Context) error {
	if s.User == "" {
		return nil
	}
	return ctx.After("expire", max(time.Until(s.Until), time.Millisecond))
}

// OnTimer ends the session when its time is over.
func (s *session) OnTimer(ctx *sharding.Context, _ string) error {
	s.endSession(ctx)
	return nil
}

// endSession ends the instance, and leaves no state behind.
func (s *session) endSession(ctx *sharding.Context) {
	s.User, s.Values = "", nil
	ctx.Passivate()
}

// Snapshot returns the state. A session that has ended has none: no copy is kept.
func (s *session) Snapshot(*sharding.Context) ([]byte, error) {
	if s.User == "" {
		return nil, nil
	}
	return json.Marshal(s)
}

func (s *session) Restore(_ *sharding.Context, state []byte) error {
	return json.Unmarshal(state, s)
}

// sessions is the handle for messages to sessions.
type sessions = sharding.Region[action, map[string]string]

// sessionType returns the type of sessions that live for a time after their last use.
func sessionType(lifetime time.Duration) sharding.Type[action, map[string]string] {
	return sharding.Type[action, map[string]string]{
		Name: "session",
		New: func(string) sharding.Entity[action, map[string]string] {
			return &session{lifetime: lifetime}
		},
		State: sharding.Replicated{Replicas: 3, Mode: sharding.Quorum},
		// Remembered sessions start again after a crash without a request, so that they expire.
		Remember: true,
	}
}
