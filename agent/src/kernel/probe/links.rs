//! `HookLink` keeps the program of one hook attached, and checks whether the kernel still has the link: somebody may
//! have removed it.

use aya::programs::links::{FdLink, LinkError};
use rustix::io::Errno;

use crate::kernel::hooks::Hook;

/// What keeps the program of one hook attached; dropping it detaches the program.
#[derive(Debug)]
pub(super) struct HookLink {
    pub(super) hook: Hook,
    link: FdLink,
    /// The kernel's number of the link; `None` where it does not tell: before Linux 5.8, or where it may not be asked.
    id: Option<u32>,
}

impl HookLink {
    pub(super) fn new(hook: Hook, link: FdLink) -> Self {
        let id = link.info().ok().map(|info| info.id());
        Self { hook, link, id }
    }

    /// Is its descriptor closed, or does it lead to something else by now? Costs one system call and needs no capability.
    /// Where the kernel does not tell, no link counts as gone.
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
