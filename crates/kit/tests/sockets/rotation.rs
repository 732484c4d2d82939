//! Tests of certificates replaced under a running server, the way the kubelet replaces a Secret volume.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use headroom_kit::{
    serve::Limits,
    supervise::Shutdown,
    tls::{self, CertStore, ClientAuth, Files, MinVersion, client, self_signed, server_config},
};

use super::site::{Certs, Site, certificate_in, get, shown, within};

/// A Secret volume: `tls.crt -> ..data/tls.crt`, `..data -> ..N`, and a swap replaces `..data` in one rename.
struct Volume {
    root: PathBuf,
    generation: u32,
}

impl Volume {
    fn new(root: &Path, certs: &Certs) -> Self {
        let mut volume = Self {
            root: root.to_owned(),
            generation: 0,
        };
        volume.swap(certs);
        for name in [self_signed::CERT, self_signed::KEY] {
            symlink(Path::new("..data").join(name), root.join(name)).unwrap();
        }
        volume
    }

    fn files(&self) -> Files {
        Files {
            cert: self.root.join(self_signed::CERT),
            key: self.root.join(self_signed::KEY),
        }
    }

    fn swap(&mut self, certs: &Certs) {
        let old = self.root.join(format!("..{}", self.generation));
        self.generation += 1;
        let new = self.root.join(format!("..{}", self.generation));
        fs::create_dir(&new).unwrap();
        fs::copy(&certs.files.cert, new.join(self_signed::CERT)).unwrap();
        fs::copy(&certs.files.key, new.join(self_signed::KEY)).unwrap();
        let link = self.root.join("..data_tmp");
        symlink(new.file_name().unwrap(), &link).unwrap();
        fs::rename(&link, self.root.join("..data")).unwrap();
        if old.exists() {
            fs::remove_dir_all(old).unwrap();
        }
    }
}

/// Serves from a volume whose changes are noticed by events or by a poll.
async fn site(volume: &Volume, poll: Duration) -> (Site, Arc<CertStore>) {
    let store = CertStore::load("test", volume.files(), SystemTime::now()).unwrap();
    let tls = server_config(
        Arc::<CertStore>::clone(&store),
        MinVersion::Tls12,
        &ClientAuth::None,
        &["http/1.1"],
    );
    let site = Site::echo(Limits::default(), Some(tls.unwrap())).await;
    tokio::spawn(tls::watch(
        Arc::clone(&store),
        poll,
        site.shutdown.stopping().clone(),
    ));
    (site, store)
}

/// Connects until the server presents the certificate of these files.
async fn until_shown(site: &Site, certs: &Certs) {
    let wanted = certificate_in(&certs.files.cert);
    within(async {
        loop {
            // A new client each time: a resumed session shows no certificate.
            let config = client::client_config(&certs.ca(), None, &["http/1.1"]).unwrap();
            if site
                .connect_tls(config)
                .await
                .is_ok_and(|stream| shown(&stream) == wanted)
            {
                return;
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_swap_is_seen_by_the_next_connection_and_an_old_one_lives_on() {
    let place = tempfile::tempdir().unwrap();
    let first = Certs::new();
    let mut volume = Volume::new(place.path(), &first);
    // Events only: no poll within the life of this test.
    let (site, _store) = site(&volume, Duration::from_secs(3600)).await;
    let mut old = site.connect_tls(first.client(&["http/1.1"])).await.unwrap();
    assert!(get(&mut old, "/before").await.unwrap().ends_with("/before"));

    // A watch of the file itself would end with the first swap; its last events could still show the second.
    for _ in 0..4 {
        let next = Certs::new();
        volume.swap(&next);
        until_shown(&site, &next).await;
    }

    assert!(get(&mut old, "/after").await.unwrap().ends_with("/after"));
    assert_eq!(shown(&old), certificate_in(&first.files.cert));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poll_finds_a_directory_that_was_replaced_as_a_whole() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("certs");
    fs::create_dir(&root).unwrap();
    let [first, second] = [Certs::new(), Certs::new()];
    let volume = Volume::new(&root, &first);
    let (site, _store) = site(&volume, Duration::from_millis(20)).await;
    until_shown(&site, &first).await;

    fs::rename(&root, place.path().join("gone")).unwrap();
    fs::create_dir(&root).unwrap();
    Volume::new(&root, &second);
    until_shown(&site, &second).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_pair_is_refused_and_the_next_good_one_is_loaded() {
    let place = tempfile::tempdir().unwrap();
    let [first, second] = [Certs::new(), Certs::new()];
    let mut volume = Volume::new(place.path(), &first);
    let (site, store) = site(&volume, Duration::from_secs(3600)).await;

    let torn = Certs::new();
    fs::copy(&second.files.key, &torn.files.key).unwrap();
    volume.swap(&torn);
    let error = store.reload(SystemTime::now()).unwrap_err().to_string();
    assert!(error.contains("does not belong to the certificate"), "{error}");
    let stream = site.connect_tls(first.client(&["http/1.1"])).await.unwrap();
    assert_eq!(shown(&stream), certificate_in(&first.files.cert));

    volume.swap(&second);
    until_shown(&site, &second).await;
}

#[tokio::test]
async fn unchanged_files_are_no_reload() {
    let certs = Certs::new();
    let store = certs.store();
    assert!(!store.reload(SystemTime::now()).unwrap());
    let other = Certs::new();
    fs::copy(&other.files.cert, &certs.files.cert).unwrap();
    fs::copy(&other.files.key, &certs.files.key).unwrap();
    assert!(store.reload(SystemTime::now()).unwrap());
    assert!(!store.reload(SystemTime::now()).unwrap());
}

#[tokio::test]
async fn a_watch_ends_when_the_process_stops() {
    let shutdown = Shutdown::new();
    shutdown.stop();
    within(tls::watch(
        Certs::new().store(),
        Duration::from_secs(3600),
        shutdown.stopping().clone(),
    ))
    .await;
}
