//! [`KnownProfile`]: a profile as its object has it: compiled once, or why it cannot be.

use super::{Profile, error::with_causes};

/// Longest specification that is read, in bytes.
pub const LONGEST_SPEC: usize = 64 << 10;

/// A colocation profile.
#[derive(Debug)]
pub struct KnownProfile {
    /// The profile; the text says why it has none.
    pub compiled: Result<Profile, String>,
    /// The value of its annotation `skip-update-resources`.
    pub skip: Option<String>,
    /// The UID of its object; empty where it has none.
    pub uid: String,
    /// What is wrong with it, whatever the pod.
    fault: Option<String>,
}

impl KnownProfile {
    /// The profile of a specification, which is JSON, and of an annotation's value.
    pub fn read(spec: &str, skip: Option<String>) -> Self {
        let compiled = if spec.len() > LONGEST_SPEC {
            Err(format!("spec is longer than {LONGEST_SPEC} bytes"))
        } else {
            Profile::compile(spec).map_err(|error| with_causes(&error))
        };
        let fault = match &compiled {
            Ok(profile) => profile.defect().map(|defect| with_causes(defect)),
            Err(error) => Some(error.clone()),
        };
        Self {
            compiled,
            skip,
            uid: String::new(),
            fault,
        }
    }

    /// What is wrong with it, whatever the pod: the field, and its value.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }
}
