package compare;

import org.apache.pekko.actor.typed.ActorRef;

/** A request to an entity; a tell has no replyTo. */
record Request(byte[] payload, ActorRef<Answer> replyTo) implements Message {}
