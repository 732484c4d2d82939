//! Creates a self-signed CA and a serving certificate, in a directory that replicas may share.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rustls::{
    client::{verify_server_cert_signed_by_trust_anchor, verify_server_name},
    pki_types::UnixTime,
    server::ParsedCertificate,
};
use tracing::info;

use super::{
    Files, TlsError,
    authority::Authority,
    client,
    pem::{self, Content, PemPair, Validity},
    provider, seconds,
};

/// File name of the CA certificate, for clients of the server.
pub const CA_CERT: &str = "ca.crt";
/// File name of the CA's private key.
pub const CA_KEY: &str = "ca.key";
/// File name of the serving certificate.
pub const CERT: &str = "tls.crt";
/// File name of the serving certificate's private key.
pub const KEY: &str = "tls.key";

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Validity of a new CA.
const CA_LIFETIME: Duration = DAY.saturating_mul(3650);
/// Validity of a new serving certificate. A CA with less time left is replaced, so a certificate never outlives its
/// CA.
const LIFETIME: Duration = DAY.saturating_mul(365);
/// Remaining validity below which a serving certificate is replaced.
const RENEW_BEFORE: Duration = DAY.saturating_mul(30);

/// Returns key pair files in `directory` that are valid for all `names` (DNS names and IP addresses), with their CA
/// in [`CA_CERT`]. Existing files are used if they are valid for another 30 days; otherwise new ones are created.
///
/// Replicas that share the directory agree: a lock lets one replica write while the others wait. Only the owner can
/// read keys, and the directory if it has to be created. Blocks on file I/O.
///
/// # Errors
/// An invalid name, a directory that cannot be written or contains certificates issued elsewhere, or a CA that cannot
/// be used: clients trust it, so it is not replaced early.
pub fn ensure(directory: &Path, names: &[String], now: SystemTime) -> Result<Files, TlsError> {
    let files = Files {
        cert: directory.join(CERT),
        key: directory.join(KEY),
    };
    for name in names {
        client::server_name(name)?;
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(|source| refuse(directory, source))?;
    let _lock = lock(&directory.join(".lock"))?;
    if files.cert.exists() && !directory.join(CA_KEY).exists() {
        return Err(TlsError::Foreign { path: files.cert });
    }
    if is_current(directory, &files, names, now).is_ok_and(|is_current| is_current) {
        return Ok(files);
    }
    let existing = existing_ca(directory, now).map_err(|source| TlsError::UnusableAuthority {
        directory: directory.to_owned(),
        source: Box::new(source),
    })?;
    let ca = match existing {
        Some(ca) => ca,
        None => new_ca(directory, now)?,
    };
    issue(&ca, &files, names, now)?;
    info!(directory = %directory.display(), ?names, "issued a self-signed certificate");
    Ok(files)
}

/// Returns true if the files are a key pair of the CA next to them, cover all names and are valid long enough.
fn is_current(directory: &Path, files: &Files, names: &[String], now: SystemTime) -> Result<bool, TlsError> {
    let (key, _) = pem::certified(&pem::read_pair(files)?, files)?;
    let unusable = |source| TlsError::Unusable {
        path: files.cert.clone(),
        source,
    };
    let leaf = key
        .end_entity_cert()
        .and_then(ParsedCertificate::try_from)
        .map_err(unusable)?;
    let roots = pem::roots(&directory.join(CA_CERT))?;
    let later = UnixTime::since_unix_epoch(Duration::from_secs(seconds(now + RENEW_BEFORE).unsigned_abs()));
    let algorithms = provider().signature_verification_algorithms.all;
    let is_signed = verify_server_cert_signed_by_trust_anchor(&leaf, &roots, &[], later, algorithms).is_ok();
    let mut is_for_all = true;
    for name in names {
        is_for_all &= verify_server_name(&leaf, &client::server_name(name)?).is_ok();
    }
    Ok(is_signed && is_for_all)
}

/// Returns the CA in the directory if it outlives a certificate issued now. No certificate means no CA, because it is
/// written last. The validity is checked before the key: an interrupted replacement leaves the key of the next CA.
fn existing_ca(directory: &Path, now: SystemTime) -> Result<Option<Authority>, TlsError> {
    let files = Files {
        cert: directory.join(CA_CERT),
        key: directory.join(CA_KEY),
    };
    let cert = match pem::read(&files.cert) {
        Ok(cert) => cert,
        Err(TlsError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let Validity { from, to } = pem::validity(&cert, &files.cert)?;
    if seconds(now) < from || to < seconds(now + LIFETIME) {
        return Ok(None);
    }
    let content = Content {
        cert,
        key: pem::read(&files.key)?,
    };
    // Checked with the names of the files, for its errors.
    pem::certified(&content, &files)?;
    let [cert, key] = [content.cert, content.key].map(|text| String::from_utf8_lossy(&text).into_owned());
    Authority::load(&PemPair { cert, key }).map(Some)
}

fn new_ca(directory: &Path, now: SystemTime) -> Result<Authority, TlsError> {
    let ca = Authority::create(now, CA_LIFETIME)?;
    write(&directory.join(CA_KEY), &ca.pem().key, 0o600)?;
    write(&directory.join(CA_CERT), &ca.pem().cert, 0o644)?;
    Ok(ca)
}

fn issue(ca: &Authority, files: &Files, names: &[String], now: SystemTime) -> Result<(), TlsError> {
    let PemPair { cert, key } = ca.issue(names, now, LIFETIME)?;
    write(&files.key, &key, 0o600)?;
    write(&files.cert, &cert, 0o644)
}

/// Replaces a file atomically: readers see the old content or the new.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), TlsError> {
    let temporary = path.with_added_extension("new");
    let put = || {
        // A file left by an interrupted attempt may have another mode.
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    put().map_err(|source| refuse(path, source))
}

/// Waits for the lock, which is held until the file is dropped.
fn lock(path: &Path) -> Result<File, TlsError> {
    let lock = || {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(path)?;
        file.lock()?;
        Ok(file)
    };
    lock().map_err(|source| refuse(path, source))
}

fn refuse(path: &Path, source: io::Error) -> TlsError {
    TlsError::Write {
        path: PathBuf::from(path),
        source,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Midnight `number` days after a day in 2024.
    fn day(number: u32) -> SystemTime {
        SystemTime::UNIX_EPOCH + DAY * (20_000 + number)
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn contents(directory: &Path) -> [Vec<u8>; 3] {
        [CA_CERT, CERT, KEY].map(|name| fs::read(directory.join(name)).unwrap())
    }

    #[test]
    fn the_next_replica_reuses_existing_certificates() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("certs");
        let files = ensure(&directory, &names(&["a.svc", "127.0.0.1", "::1"]), day(0)).unwrap();
        let made = contents(&directory);
        assert_eq!(
            ensure(&directory, &names(&["127.0.0.1"]), day(300)).unwrap(),
            files
        );
        assert_eq!(contents(&directory), made);
    }

    #[test]
    fn replicas_that_start_together_agree() {
        let place = tempfile::tempdir().unwrap();
        let seen: Vec<_> = std::thread::scope(|scope| {
            let replica = || {
                ensure(place.path(), &names(&["a.svc"]), day(0)).unwrap();
                contents(place.path())
            };
            let replicas: Vec<_> = (0..4).map(|_| scope.spawn(replica)).collect();
            replicas
                .into_iter()
                .map(|replica| replica.join().unwrap())
                .collect()
        });
        assert!(seen.windows(2).all(|pair| pair[0] == pair[1]));
    }

    #[test]
    fn a_new_name_gets_a_new_certificate_of_the_same_ca() {
        let place = tempfile::tempdir().unwrap();
        ensure(place.path(), &names(&["a.svc"]), day(0)).unwrap();
        let before = contents(place.path());
        let wanted = names(&["a.svc", "b.svc"]);
        let files = ensure(place.path(), &wanted, day(0)).unwrap();
        let after = contents(place.path());
        assert_eq!(before[0], after[0]);
        assert_ne!(before[1..], after[1..]);
        assert!(is_current(place.path(), &files, &wanted, day(0)).unwrap());
    }

    #[test]
    fn a_certificate_near_its_end_is_replaced_and_a_ca_before_it() {
        let place = tempfile::tempdir().unwrap();
        ensure(place.path(), &names(&["a.svc"]), day(0)).unwrap();
        let first = contents(place.path());
        ensure(place.path(), &names(&["a.svc"]), day(336)).unwrap();
        let second = contents(place.path());
        assert_eq!(first[0], second[0]);
        assert_ne!(first[1], second[1]);
        ensure(place.path(), &names(&["a.svc"]), day(3300)).unwrap();
        assert_ne!(second[0], contents(place.path())[0]);
    }

    #[test]
    fn a_damaged_key_is_replaced() {
        let place = tempfile::tempdir().unwrap();
        let files = ensure(place.path(), &names(&["a.svc"]), day(0)).unwrap();
        fs::write(&files.key, "-----BEGIN nothing").unwrap();
        ensure(place.path(), &names(&["a.svc"]), day(0)).unwrap();
        pem::certified(&pem::read_pair(&files).unwrap(), &files).unwrap();
    }

    #[test]
    fn a_ca_that_cannot_be_used_is_an_error_and_stays() {
        for (name, damage) in [
            (CA_KEY, Some("-----BEGIN nothing")),
            (CA_CERT, Some("cut off")),
            (CA_CERT, None),
        ] {
            let place = tempfile::tempdir().unwrap();
            ensure(place.path(), &names(&["a.svc"]), day(0)).unwrap();
            let damaged = place.path().join(name);
            if let Some(text) = damage {
                fs::write(&damaged, text).unwrap();
            } else {
                // Unreadable for all users, root included.
                fs::remove_file(&damaged).unwrap();
                fs::create_dir(&damaged).unwrap();
            }
            let read = || [CA_CERT, CA_KEY, CERT].map(|name| fs::read(place.path().join(name)).ok());
            let before = read();
            let error = ensure(place.path(), &names(&["b.svc"]), day(1)).unwrap_err();
            assert!(
                matches!(error, TlsError::UnusableAuthority { .. }),
                "{name}: {error}"
            );
            assert_eq!(read(), before, "{name}");
        }
    }

    #[test]
    fn a_ca_whose_replacement_was_interrupted_is_replaced() {
        let (place, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        ensure(place.path(), &names(&["a.svc"]), day(0)).unwrap();
        ensure(other.path(), &names(&["a.svc"]), day(3300)).unwrap();
        fs::copy(other.path().join(CA_KEY), place.path().join(CA_KEY)).unwrap();
        let files = ensure(place.path(), &names(&["a.svc"]), day(3300)).unwrap();
        assert!(is_current(place.path(), &files, &names(&["a.svc"]), day(3300)).unwrap());
    }

    #[test]
    fn certificates_issued_elsewhere_are_left_alone() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join(CERT), "precious").unwrap();
        let error = ensure(place.path(), &names(&["a.svc"]), day(0)).unwrap_err();
        assert!(matches!(error, TlsError::Foreign { .. }), "{error}");
        assert_eq!(fs::read(place.path().join(CERT)).unwrap(), b"precious");
    }

    #[test]
    fn an_invalid_name_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let error = ensure(place.path(), &names(&["not a name"]), day(0)).unwrap_err();
        assert_eq!(
            error.to_string(),
            r#""not a name" is neither a DNS name nor an IP address"#
        );
    }

    #[test]
    fn keys_and_the_directory_are_for_their_owner_only() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("certs");
        ensure(&directory, &names(&["a.svc"]), day(0)).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&directory), 0o700);
        assert_eq!(
            [CA_KEY, KEY].map(|name| mode(&directory.join(name))),
            [0o600, 0o600]
        );
        assert_eq!(
            [CA_CERT, CERT].map(|name| mode(&directory.join(name)) & 0o444),
            [0o444, 0o444]
        );
    }
}
