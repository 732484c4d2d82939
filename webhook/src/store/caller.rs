//! [`ReviewCaller`]: proof that a review comes from an API server.

/// The client of the admission port that posted a review.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ReviewCaller {
    /// An API server: its client certificate is of the named CA and has a named subject.
    Verified,
    /// Any client that reaches the port.
    #[default]
    Unverified,
}

impl ReviewCaller {
    /// Its name in logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Unverified => "unverified",
        }
    }
}
