//! Raises the open file limit of this process, and with it the possible number of connections, to the system's hard
//! limit.
//!
//! The webhook does so at startup.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{info, warn};

/// Raises the open file limit to the hard limit and returns the limit in force, in files; `u64::MAX` means unlimited.
///
/// Container runtimes start processes with a soft limit as low as 1,024, far below the hard limit.
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
            info!(before = current, now = maximum, "raised the open file limit");
            maximum.unwrap_or(u64::MAX)
        }
        Err(error) => {
            warn!(limit = current, %error, "cannot raise the open file limit; fewer connections can be served");
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
