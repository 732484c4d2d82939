//! Checks that only the agent's user can write to the folder of the checkpoints and its files: a user who could place
//! a file there could publish any ratio. Root counts as the agent's user, since it has all rights.

use std::{
    fs::{self, File, Permissions},
    io::{self, Read as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
};

use super::CheckpointError;

/// Size limit of a file, in bytes: three times the size for 512 pods.
const LARGEST: u64 = 4 << 20;
/// Mode bits that let other users write to a file, or create, rename and remove files in a folder.
const OTHERS_WRITE: u32 = 0o022;
/// Mode bit of a folder that all users may use, which the agent cannot close.
const STICKY: u32 = 0o1000;
const ROOT: u32 = 0;

/// Creates the folder if it is missing, and closes it to all users except `own`. Returns true if other users may have
/// written files there before.
///
/// # Errors
/// The folder cannot be made or closed, is another user's, or is shared by all users.
pub(super) fn claim(folder: &Path, own: u32) -> Result<bool, CheckpointError> {
    let failed = |source| CheckpointError::File {
        path: folder.to_owned(),
        source,
    };
    let is_new = !folder.is_dir();
    if is_new {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let found = fs::metadata(folder).map_err(failed)?;
    if found.mode() & STICKY != 0 {
        return Err(CheckpointError::Shared {
            path: folder.to_owned(),
        });
    }
    check_owner(folder, found.uid(), own)?;
    let was_open = !is_new && found.mode() & OTHERS_WRITE != 0;
    if is_new || was_open {
        fs::set_permissions(folder, Permissions::from_mode(0o700)).map_err(failed)?;
    }
    Ok(was_open)
}

/// Content of a file in a folder that `own` has claimed; `None` if the file is missing. A file that is too long is
/// read only far enough to detect that.
///
/// # Errors
/// It is no regular file, another user's, or others may write to it; or the file system refuses.
pub(super) fn read(path: &Path, own: u32) -> Result<Option<Vec<u8>>, CheckpointError> {
    let failed = |source| CheckpointError::File {
        path: path.to_owned(),
        source,
    };
    // Checks the name itself: a link may lead to a folder of other users. No other user can replace the file before
    // it is opened.
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found.map_err(failed)?,
    };
    if !found.is_file() {
        return Err(CheckpointError::NotAFile);
    }
    check_owner(path, found.uid(), own)?;
    if found.mode() & OTHERS_WRITE != 0 {
        return Err(CheckpointError::Exposed);
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes))
        .map_err(failed)?;
    Ok(Some(bytes))
}

fn check_owner(path: &Path, uid: u32, own: u32) -> Result<(), CheckpointError> {
    if uid == own || uid == ROOT {
        Ok(())
    } else {
        Err(CheckpointError::NotOwned {
            path: path.to_owned(),
            uid,
        })
    }
}
