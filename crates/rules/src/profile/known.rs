//! [`KnownProfile`]: a profile object, compiled once, or the reason why it does not compile.

use std::time::Instant;

use super::{Profile, ProfileTarget, error::with_causes};

/// Maximum length of a specification, in bytes.
pub const LONGEST_SPEC: usize = 64 << 10;

/// Colocation profile as stored in the cluster.
#[derive(Debug)]
pub struct KnownProfile {
    /// The compiled profile, or the reason why it does not compile.
    pub compiled: Result<Profile, String>,
    /// Value of its annotation `skip-update-resources`.
    pub skip: Option<String>,
    /// UID of its object; empty if it has none.
    pub uid: String,
    /// Time at which this version became known; `None` if it does not matter.
    pub since: Option<Instant>,
    /// Fault of the profile itself, independent of any pod.
    fault: Option<String>,
}

impl KnownProfile {
    /// Compiles a specification in JSON; `skip` is the value of the annotation.
    pub fn read(spec: &str, skip: Option<String>) -> Self {
        let compiled = if spec.len() > LONGEST_SPEC {
            Err(format!("spec is longer than {LONGEST_SPEC} bytes"))
        } else {
            Profile::compile(spec).map_err(|error| with_causes(&error))
        };
        let fault = match &compiled {
            Ok(profile) => profile
                .defect(ProfileTarget::Pod)
                .map(|defect| with_causes(defect)),
            Err(error) => Some(error.clone()),
        };
        Self {
            compiled,
            skip,
            uid: String::new(),
            since: None,
            fault,
        }
    }

    /// Fault of the profile itself, because of which it is applied to no pod: the field, and its value.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }
}
