//! Checks that the folder of the checkpoints and the files in it are the agent's alone: who could put a file there could
//! have any ratio published. Root counts as the agent, as it may do all that an agent may.

use std::{
    fs::{self, File, Permissions},
    io::{self, Read as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
};

use super::CheckpointError;

/// No file is larger: three times what 512 pods take.
const LARGEST: u64 = 4 << 20;
/// What a mode allows others: to write to a file; to make, rename and remove files in a folder.
const OTHERS_WRITE: u32 = 0o022;
/// A folder that everybody may use, and that is nobody's to close.
const STICKY: u32 = 0o1000;
const ROOT: u32 = 0;

/// Makes the folder if it is not there, and closes it to everybody but the user `own`. True if others may have put files
/// there before.
///
/// # Errors
/// The folder cannot be made or closed, is another user's, or everybody is meant to use it.
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

/// The content of a file in a folder that was claimed by `own`; `None` if it is not there. Of a file that is too long, so
/// much that it can be told.
///
/// # Errors
/// It is no regular file, another user's, or others may write to it; or the file system refuses.
pub(super) fn read(path: &Path, own: u32) -> Result<Option<Vec<u8>>, CheckpointError> {
    let failed = |source| CheckpointError::File {
        path: path.to_owned(),
        source,
    };
    // Of the name itself: a link leads to where others may write. Nobody else can put another file behind the name before it
    // is opened.
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
