package peerage

// Version is the version of this module, as a semantic version in the form that the go
// command uses. It ends in -dev between two releases; a released version equals its tag.
//
// The commit that a program was built from is in runtime/debug.ReadBuildInfo; the command
// peerage version prints both.
const Version = "v0.1.0-dev"
