//! `new` makes aya's loader without the kernel's types.
//!
//! Our programs have no relocations, so the loader does not need those types. But its constructor reads them all, which takes
//! 22 MiB: more than the rest of the agent. So it is constructed on a thread that cannot open files.

use std::{collections::BTreeMap, env::consts::ARCH, io, thread};

use aya::EbpfLoader;
use rustix::io::Errno;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
use tracing::debug;

/// System calls with which C libraries open a file.
#[cfg(target_arch = "x86_64")]
const OPENS: [libc::c_long; 2] = [libc::SYS_open, libc::SYS_openat];
#[cfg(not(target_arch = "x86_64"))]
const OPENS: [libc::c_long; 1] = [libc::SYS_openat];

/// A loader without the kernel's types. If the kernel cannot filter system calls, the loader reads the types and drops them,
/// which only costs memory for a moment.
pub(super) fn new() -> EbpfLoader<'static> {
    let mut loader = without_files(EbpfLoader::new).unwrap_or_else(|error| {
        debug!(%error, "cannot start a thread without file access: the BPF loader reads the kernel's types");
        EbpfLoader::new()
    });
    loader.btf(None);
    loader
}

/// Runs `make` on a thread of its own that cannot open files.
fn without_files<T: Send>(make: impl FnOnce() -> T + Send) -> io::Result<T> {
    let body = || {
        deny_files().map_err(io::Error::other)?;
        Ok(make())
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("loader".to_owned());
        let made = thread.spawn_scoped(scope, body)?.join();
        made.map_err(|_panic| io::Error::other("it panicked"))?
    })
}

/// Prevents this thread from opening files until it ends.
fn deny_files() -> Result<(), seccompiler::Error> {
    let refused = SeccompAction::Errno(Errno::ACCESS.raw_os_error().unsigned_abs());
    // An empty list of rules matches all arguments.
    let calls: BTreeMap<_, _> = OPENS.into_iter().map(|call| (call, Vec::new())).collect();
    let filter = SeccompFilter::new(calls, SeccompAction::Allow, refused, ARCH.try_into()?)?;
    let program: BpfProgram = filter.try_into()?;
    apply_filter(&program)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    const SOME_FILE: &str = "/proc/self/stat";

    #[test]
    fn a_loader_has_no_types() {
        let made = without_files(EbpfLoader::new).unwrap();
        let shown = format!("{made:?}");
        assert!(shown.starts_with("EbpfLoader { btf: None, "), "{shown:.100}");
    }

    #[test]
    fn other_threads_can_open_files() {
        let refused = without_files(|| File::open(SOME_FILE)).unwrap();
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        File::open(SOME_FILE).unwrap();
        let other = thread::spawn(|| File::open(SOME_FILE));
        other.join().unwrap().unwrap();
    }
}
