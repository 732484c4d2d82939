//! `HookLink` keeps the program of one hook attached, and checks that the kernel still has the link: another process may
//! remove it.

use aya::programs::links::{FdLink, LinkError};
use rustix::io::Errno;

use crate::kernel::hooks::Hook;

/// Link of the program of one hook; dropping it detaches the program.
#[derive(Debug)]
pub(super) struct HookLink {
    pub(super) hook: Hook,
    link: FdLink,
    /// Link id; `None` before Linux 5.8 and where the query is not permitted.
    id: Option<u32>,
}

impl HookLink {
    pub(super) fn new(hook: Hook, link: FdLink) -> Self {
        let id = link.info().ok().map(|info| info.id());
        Self { hook, link, id }
    }

    /// Returns true if the descriptor is closed or refers to another object. Costs one system call and needs no capability.
    /// Always false on kernels without link ids.
    pub(super) fn is_gone(&self) -> bool {
        let Some(id) = self.id else {
            return false;
        };
        match self.link.info() {
            Ok(info) => info.id() != id,
            Err(LinkError::SyscallError(error)) => {
                let errno = Errno::from_io_error(&error.io_error);
                matches!(errno, Some(Errno::BADF | Errno::INVAL))
            }
            Err(LinkError::InvalidLink | LinkError::UnknownLinkType(_)) => false,
        }
    }
}
