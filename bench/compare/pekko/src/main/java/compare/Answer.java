package compare;

/** The answer of an entity. */
record Answer(byte[] payload) implements Message {}
