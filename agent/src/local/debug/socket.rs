//! `Socket`: the unix socket of the debug service. Only its owner may connect, from its first moment on; a dead
//! process's socket is replaced, a live one's never.

use std::{
    fs, io,
    os::unix::{
        fs::{FileTypeExt as _, MetadataExt as _},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
};

use headroom_kit::log::chain;
use rustix::{
    fs::{Mode, fchmod},
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with},
};
use tracing::warn;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 16;

/// A bound socket; its file is removed when dropped.
#[derive(Debug)]
pub struct Socket {
    pub listener: UnixListener,
    pub file: SocketFile,
}

/// File of a socket; removed on drop, unless another process has replaced it.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    #[error("another process answers at {}: is a second agent running on this node?", path.display())]
    Taken { path: PathBuf },
    /// Something is there that is no socket.
    #[error("{} exists and is not a socket", path.display())]
    Foreign { path: PathBuf },
    #[error("cannot listen at {}", path.display())]
    System {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl Socket {
    /// Listens at the path; an empty path means no socket. A failure is logged and ignored, since measuring must not
    /// depend on queries.
    pub fn open(path: &Path) -> Option<Self> {
        let bound = (!path.as_os_str().is_empty()).then(|| Self::bind(path))?;
        let tell =
            |error| warn!(error = %chain(&error), "--debug-socket: no socket until the agent is restarted");
        bound.map_err(tell).ok()
    }

    /// Listens at a path; only the owner of this process may connect. A socket file of a killed agent is removed
    /// first.
    ///
    /// # Errors
    /// Another process listens there, the path is not a socket, or the system call fails.
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        let at = |source: io::Error| SocketError::System {
            path: path.to_owned(),
            source,
        };
        remove_stale(path)?;
        let address = SocketAddrUnix::new(path).map_err(|errno| at(errno.into()))?;
        let listener = socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .and_then(|socket| {
            // Linux creates the file with the mode of the socket, so at no moment can others connect.
            fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
            bind(&socket, &address)?;
            listen(&socket, BACKLOG)?;
            Ok(socket)
        })
        .map_err(|errno| at(errno.into()))?;
        let listener = UnixListener::from(listener);
        listener.set_nonblocking(true).map_err(at)?;
        let file = SocketFile {
            path: path.to_owned(),
            identity: identity(path).map_err(at)?,
        };
        Ok(Self { listener, file })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|now| now == self.identity) {
            // A failed removal has no remedy here.
            let _is_removed = fs::remove_file(&self.path).is_ok();
        }
    }
}

/// Removes a socket file without a listener.
fn remove_stale(path: &Path) -> Result<(), SocketError> {
    let at = |source| SocketError::System {
        path: path.to_owned(),
        source,
    };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(at(error)),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(SocketError::Foreign {
                path: path.to_owned(),
            });
        }
        Ok(_socket) => {}
    }
    match UnixStream::connect(path) {
        Ok(_answer) => Err(SocketError::Taken {
            path: path.to_owned(),
        }),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path).map_err(at),
        Err(error) => Err(at(error)),
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        (folder, path)
    }

    #[test]
    fn there_is_no_socket_where_none_is_wanted_or_none_can_be_had() {
        assert!(Socket::open(Path::new("")).is_none());
        assert!(Socket::open(Path::new("/nonexistent/agent.sock")).is_none());
        let (_folder, path) = place();
        let _socket = Socket::open(&path).unwrap();
        UnixStream::connect(&path).unwrap();
    }

    #[test]
    fn only_the_owner_may_connect_and_the_file_goes_with_the_socket() {
        let (_folder, path) = place();
        let socket = Socket::bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn what_a_killed_process_left_is_taken_over() {
        let (_folder, path) = place();
        // The file stays after such a listener is dropped.
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let _socket = Socket::bind(&path).unwrap();
        UnixStream::connect(&path).unwrap();
    }

    #[test]
    fn a_living_socket_is_not_taken_away() {
        let (_folder, path) = place();
        let _first = Socket::bind(&path).unwrap();
        let refusal = Socket::bind(&path).unwrap_err();
        assert!(matches!(refusal, SocketError::Taken { .. }), "{refusal}");
        UnixStream::connect(&path).unwrap();
    }

    #[test]
    fn a_file_that_is_no_socket_stays() {
        let (_folder, path) = place();
        fs::write(&path, "kept").unwrap();
        let refusal = Socket::bind(&path).unwrap_err();
        assert!(refusal.to_string().ends_with("is not a socket"), "{refusal}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "kept");
    }

    #[test]
    fn the_socket_of_a_successor_is_not_removed() {
        let (_folder, path) = place();
        let first = Socket::bind(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let _second = Socket::bind(&path).unwrap();
        drop(first);
        assert!(path.exists());
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let refusal = Socket::bind(Path::new("/nonexistent/agent.sock")).unwrap_err();
        assert_eq!(refusal.to_string(), "cannot listen at /nonexistent/agent.sock");
    }
}
