package activation

// Inlet takes messages in for a goroutine that brings many at a time, the reader of a
// connection: entities that they wake begin when all of them are in their mailboxes.
// So the run queues are told, and goroutines started, once for many messages and not
// for each; and who has several messages among them finds them all.
//
// Flush it before waiting for anything. It is for one goroutine. It counts as one of
// the Host's: Close waits for the Flush.
type Inlet[C, Req, Resp any] struct {
	host  *Host[C, Req, Resp]
	begun [queues][]task[C, Req, Resp]
	// taken counts messages, woken entities, since the last Flush.
	taken, woken int
}

// NewInlet returns an Inlet for messages to the shards of h.
func (h *Host[C, Req, Resp]) NewInlet() *Inlet[C, Req, Resp] { return &Inlet[C, Req, Resp]{host: h} }

// keep takes a task, with the mutex of its shard: the Host is not closed.
func (i *Inlet[C, Req, Resp]) keep(s *Shard[C, Req, Resp], in *instance[C, Req, Resp], m *Message[Req], control bool) {
	if i.woken == 0 {
		i.host.work.Add(1)
	}
	i.woken++
	q := &i.begun[s.info.number%queues]
	*q = appendTask(*q, s, in, m, control)
}

// inletMost bounds what is taken before a Flush, and so does the size of mailboxes: they
// must not fill up while nobody works them off.
const inletMost = 1024

// took counts a message.
func (i *Inlet[C, Req, Resp]) took() {
	if i.taken++; i.taken >= min(inletMost, i.host.cfg.Mailbox/4) {
		i.Flush()
	}
}

// Flush lets what was woken begin. It does not block.
func (i *Inlet[C, Req, Resp]) Flush() {
	i.taken = 0
	if i.woken == 0 {
		return
	}
	i.woken = 0
	for q := range i.begun {
		if len(i.begun[q]) > 0 {
			i.begun[q] = i.host.queues[q].pushAll(i.begun[q])
		}
	}
	i.host.work.Done()
}
