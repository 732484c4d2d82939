//! kubectl headroom: see and explain what Headroom does.
