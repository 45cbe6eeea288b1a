package compare;

/** What the serializer of this program writes. */
interface Message {}
