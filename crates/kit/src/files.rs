//! Raises this process's limit of open files, and with them connections, to what the system allows.
//!
//! The webhook does so at its start.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{info, warn};

/// Raises the limit of open files to what the system allows, and returns the limit in force then; `u64::MAX` is none.
///
/// Container runtimes start processes with a soft limit of as few as 1,024, far below the hard one.
pub fn raise_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return current.unwrap_or(u64::MAX);
    }
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => {
            info!(before = current, now = maximum, "raised the limit of open files");
            maximum.unwrap_or(u64::MAX)
        }
        Err(error) => {
            warn!(limit = current, %error, "cannot raise the limit of open files");
            current.unwrap_or(u64::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_to_what_the_system_allows() {
        let Rlimit { current: _, maximum } = getrlimit(Resource::Nofile);
        let most = maximum.unwrap_or(u64::MAX);
        let low = Rlimit {
            current: Some(most / 2),
            maximum,
        };
        setrlimit(Resource::Nofile, low).unwrap();
        assert_eq!(raise_limit(), most);
        assert_eq!(getrlimit(Resource::Nofile).current, maximum);
    }
}
