//! Tests of the checkpoint store: saved, truncated and damaged files, and files of another node, timing or schema
//! version.

use std::{
    fs::Permissions,
    os::unix::fs::{PermissionsExt as _, chown, symlink},
};

use headroom_domain::{
    estimate::{Estimator, Frame, PodRequest, PodUse, Profile, View},
    policy::Policy,
    resource::PerResource,
    workload::Workload,
};

use super::*;

fn owner() -> Owner {
    Owner {
        node: "n1".to_owned(),
        timing: "production".to_owned(),
    }
}

/// A record of a node with that many pods, each with numbers of many digits in every frame.
fn record(pods: u64, frames: u64) -> CheckpointFile {
    record_of(PodRequest::default(), pods, frames)
}

/// Like [`record`], with this request of each pod.
fn record_of(request: PodRequest, pods: u64, frames: u64) -> CheckpointFile {
    let timing = Profile::Production.timing();
    let mut estimator = Estimator::new(timing);
    let uid = |pod: u64| format!("0b6e3a54-9f5e-4b8e-8d4a-{pod:012}");
    let policy = Policy::default();
    let plenty = PerResource {
        cpu: 128_000,
        memory: 1 << 40,
    };
    estimator.set_view(View {
        generation: 1,
        capacity: plenty,
        raw: plenty,
        pods: (0..pods).map(|pod| (uid(pod), request)).collect(),
        bounds: policy.bounds,
        target_ppm: policy.target_ppm,
        admitted: PerResource::default(),
    });
    let most = PerResource {
        cpu: u64::MAX,
        memory: u64::MAX,
    };
    let used = PodUse {
        low: most,
        high: most,
    };
    for index in 0..frames {
        estimator.end_frame(&Frame {
            index,
            is_valid: true,
            peak: most,
            pods: (0..pods).map(|pod| (uid(pod), used)).collect(),
            ..Frame::default()
        });
    }
    CheckpointFile {
        owner: owner(),
        boot_id: "b1".to_owned(),
        wall: Duration::from_secs(1_700_000_000 + frames),
        began: Some(HistoryOrigin {
            wall: Duration::from_secs(1_700_000_000),
            why: Beginning::NothingSaved,
        }),
        snapshot: estimator.snapshot(Duration::from_secs(frames)),
    }
}

/// The wall time at which stores are opened here.
const OPENED: Duration = Duration::from_secs(1_700_000_000);
/// A record of later than a day, when a store writes its own schema alone.
const LATER: u64 = 1_000_000;
const NEWEST: &str = OWN.newest;
const BEFORE: &str = OWN.before;

/// Record as [`record`] makes it, but late enough that the previous schema is no longer written.
fn later(pods: u64, frames: u64) -> CheckpointFile {
    let record = record(pods, frames);
    CheckpointFile {
        wall: record.wall + Duration::from_secs(LATER),
        ..record
    }
}

fn encoded(record: &CheckpointFile) -> Vec<u8> {
    OWN.encode(record, OPENED).unwrap()
}

fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("made"), OPENED).unwrap();
    (folder, store)
}

fn load(store: &mut Store) -> Option<CheckpointFile> {
    store.load(&owner(), Ok).resumed()
}

/// The names in the folder.
fn names(store: &Store) -> Vec<String> {
    let entries = fs::read_dir(&store.folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn the_newest_record_is_loaded_and_the_one_before_it_kept() {
    let (_folder, mut store) = store();
    assert_eq!(load(&mut store), None, "there is none yet");
    for frames in [1, 2, 3] {
        store.save(&later(2, frames)).unwrap();
        assert_eq!(load(&mut store), Some(later(2, frames)));
    }
    fs::remove_file(store.folder.join(NEWEST)).unwrap();
    assert_eq!(load(&mut store), Some(later(2, 2)));
    let mode = fs::metadata(&store.folder).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "what pods use is nobody else's business");
}

/// Section 2.6: at most 1.3 MB at 512 pods, for any measurements.
#[test]
fn a_checkpoint_of_512_pods_fits() {
    let bytes = encoded(&later(512, 300));
    assert!((1_179_648..=1_300_000).contains(&bytes.len()), "{}", bytes.len());
    let (_folder, mut store) = store();
    store.save(&later(512, 300)).unwrap();
    assert!(load(&mut store).is_some());
}

#[test]
fn what_is_of_no_use_is_set_aside_and_the_one_before_it_taken() {
    let good = encoded(&later(1, 2));
    let bent = |at: usize, to: u8| {
        let mut bytes = good.clone();
        bytes[at] = to;
        bytes
    };
    let stranger = CheckpointFile {
        owner: Owner {
            node: "n2".to_owned(),
            ..owner()
        },
        ..later(1, 2)
    };
    let demo = CheckpointFile {
        owner: Owner {
            timing: "demo".to_owned(),
            ..owner()
        },
        ..later(1, 2)
    };
    let mut longer = good.clone();
    longer.push(0);
    let cases = [
        ("another program's", b"SQLite format 3\0".to_vec()),
        ("empty", Vec::new()),
        ("cut in the head", good[..10].to_vec()),
        ("cut in the record", good[..good.len() - 1].to_vec()),
        ("longer than it says", longer),
        ("of a newer version", bent(8, 3)),
        ("with a bent length", bent(13, good[13] ^ 1)),
        ("with a bent checksum", bent(17, good[17] ^ 1)),
        ("with a bent record", bent(100, good[100] ^ 1)),
        ("of another node", encoded(&stranger)),
        ("of another timing", encoded(&demo)),
        ("too large", vec![b'H'; 5 << 20]),
    ];
    for (case, bytes) in cases {
        let (_folder, mut store) = store();
        store.save(&later(1, 1)).unwrap();
        store.save(&later(1, 2)).unwrap();
        fs::write(store.folder.join(NEWEST), bytes).unwrap();
        assert_eq!(load(&mut store), Some(later(1, 1)), "{case}");
        assert_eq!(
            names(&store),
            [BEFORE.to_owned(), format!("{NEWEST}.{ASIDE}")],
            "{case}"
        );
        store.save(&later(1, 3)).unwrap();
        assert_eq!(load(&mut store), Some(later(1, 3)), "{case}: it goes on");
    }
}

#[test]
fn a_state_that_cannot_be_resumed_is_set_aside_too() {
    let (_folder, mut store) = store();
    store.save(&later(1, 1)).unwrap();
    store.save(&later(1, 2)).unwrap();
    let refuse = |_: CheckpointFile| Err::<(), _>(ResumeError::Frames);
    assert_eq!(store.load(&owner(), refuse), Loaded::Unusable);
    let aside = [BEFORE, NEWEST].map(|name| format!("{name}.{ASIDE}"));
    let mut names = names(&store);
    names.sort();
    let mut expected = aside.to_vec();
    expected.sort();
    assert_eq!(names, expected);
}

#[test]
fn a_folder_that_is_a_file_is_refused_and_one_that_vanished_fails_to_save() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let refusal = Store::open(&file, OPENED).unwrap_err().to_string();
    assert_eq!(refusal, file.display().to_string());
    let (_folder, mut store) = store();
    fs::remove_dir(&store.folder).unwrap();
    assert!(store.save(&later(0, 1)).is_err());
    assert_eq!(load(&mut store), None);
}

#[test]
fn the_gap_to_another_boot_is_by_the_wall_clock() {
    let record = record(0, 0);
    let at = |seconds: u64| Duration::from_secs(1_700_000_000 + seconds);
    assert_eq!(record.boot("b1", Duration::ZERO), Boot::Same);
    let gap = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!(record.boot("b2", at(60)), Boot::Other { gap: gap(60) });
    assert_eq!(
        record.boot("b2", Duration::from_secs(1)),
        Boot::Other { gap: None }
    );
}

/// Pins the bytes of each schema version: a change of the record's layout adds a version, and a line here.
#[test]
fn the_bytes_of_each_version_are_these() {
    let record = record(1, 2);
    for (schema, version, expected) in [
        (PREDECESSOR, 1, (2539, 750_026_236)),
        (OWN, 2, (2553, 1_256_409_708)),
    ] {
        let bytes = schema.encode(&record, OPENED).unwrap();
        assert_eq!(schema.version, version);
        assert_eq!((bytes.len(), crc32fast::hash(&bytes)), expected, "{schema:?}");
        let read = schema.decode(&bytes).unwrap().record;
        assert_eq!(read.snapshot, record.snapshot, "{schema:?}");
    }
}

/// Record of a folder as the previous version reads it.
fn by_predecessor(store: &Store) -> Option<CheckpointFile> {
    [PREDECESSOR.newest, PREDECESSOR.before].iter().find_map(|name| {
        let read = store.read(PREDECESSOR, name, &owner()).ok()?;
        read.map(|read| read.record)
    })
}

#[test]
fn a_day_long_the_version_before_can_go_on_from_what_is_saved() {
    let (_folder, mut store) = store();
    let at = |hours: u64| CheckpointFile {
        wall: OPENED + Duration::from_secs(hours * 3600),
        ..record(1, hours)
    };
    let snapshot_of = |record: Option<CheckpointFile>| record.map(|record| record.snapshot);
    for hours in [0, 1, 23] {
        store.save(&at(hours)).unwrap();
        assert_eq!(
            snapshot_of(by_predecessor(&store)),
            Some(at(hours).snapshot),
            "{hours} h"
        );
    }
    for hours in [24, 25] {
        store.save(&at(hours)).unwrap();
        assert_eq!(
            snapshot_of(by_predecessor(&store)),
            Some(at(23).snapshot),
            "{hours} h"
        );
    }
    let mut again = Store::open(&store.folder, OPENED + Duration::from_secs(25 * 3600)).unwrap();
    assert_eq!(load(&mut again), Some(at(25)));
    again.save(&at(26)).unwrap();
    assert_eq!(
        snapshot_of(by_predecessor(&store)),
        Some(at(23).snapshot),
        "a restart begins no day"
    );
    assert_eq!(load(&mut store), Some(at(26)));
}

#[test]
fn what_the_version_before_wrote_later_is_what_counts() {
    let (_folder, mut store) = store();
    store.save(&record(2, 1)).unwrap();
    let bytes = PREDECESSOR.encode(&record(2, 7), OPENED).unwrap();
    fs::write(store.folder.join(PREDECESSOR.newest), bytes).unwrap();
    let expected = CheckpointFile {
        began: None,
        ..record(2, 7)
    };
    assert_eq!(
        load(&mut store),
        Some(expected),
        "after an image was rolled back and forth"
    );
    store.save(&record(2, 8)).unwrap();
    assert_eq!(load(&mut store), Some(record(2, 8)));
    fs::write(store.folder.join(NEWEST), "bent").unwrap();
    fs::remove_file(store.folder.join(BEFORE)).unwrap();
    let expected = CheckpointFile {
        began: None,
        ..record(2, 8)
    };
    assert_eq!(
        load(&mut store),
        Some(expected),
        "the other schema's, where its own is of no use"
    );
}

#[test]
fn folder_writable_by_others_is_closed_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mode = |mode| fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
    let now = || fs::metadata(folder.path()).unwrap().permissions().mode() & 0o7777;
    mode(0o777);
    Store::open(folder.path(), OPENED).unwrap();
    assert_eq!(now(), 0o700);
    mode(0o755);
    Store::open(folder.path(), OPENED).unwrap();
    assert_eq!(now(), 0o755, "others only read");
    mode(0o1777);
    Store::open(folder.path(), OPENED).unwrap_err();
    assert_eq!(now(), 0o1777);
}

/// A folder that was open may contain files of any user: a complete record of this node counts as little as a damaged
/// one.
#[test]
fn files_of_a_previously_writable_folder_are_set_aside() {
    let (_folder, store) = store();
    for frames in [1, 2] {
        store.save(&record(1, frames)).unwrap();
    }
    fs::write(store.folder.join(UNFINISHED), "half").unwrap();
    fs::set_permissions(&store.folder, Permissions::from_mode(0o777)).unwrap();
    let mut again = Store::open(&store.folder, OPENED).unwrap();
    assert_eq!(again.load(&owner(), Ok), Loaded::Unusable);
    let expected = [PREDECESSOR.newest, PREDECESSOR.before, UNFINISHED, NEWEST, BEFORE];
    let mut expected = expected.map(|name| format!("{name}.{ASIDE}"));
    expected.sort();
    assert_eq!(names(&again), expected);
    again.save(&record(1, 3)).unwrap();
    let mut again = Store::open(&store.folder, OPENED).unwrap();
    assert_eq!(load(&mut again), Some(record(1, 3)), "from then on it is closed");
}

#[test]
fn a_file_that_is_not_the_agents_alone_is_not_read() {
    type Tampering = fn(&Path);
    let cases: [(&str, Tampering); 3] = [
        ("that others may write to", |path| {
            fs::set_permissions(path, Permissions::from_mode(0o602)).unwrap();
        }),
        ("behind a link", |path| {
            let elsewhere = path.with_extension("elsewhere");
            fs::rename(path, &elsewhere).unwrap();
            symlink(&elsewhere, path).unwrap();
        }),
        ("that is a folder", |path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        }),
    ];
    for (case, change) in cases {
        let (_folder, mut store) = store();
        store.save(&later(1, 1)).unwrap();
        store.save(&later(1, 2)).unwrap();
        change(&store.folder.join(NEWEST));
        assert_eq!(load(&mut store), Some(later(1, 1)), "{case}");
        assert!(names(&store).contains(&format!("{NEWEST}.{ASIDE}")), "{case}");
    }
}

#[test]
fn nothing_is_written_through_a_link() {
    let (_folder, mut store) = store();
    let other = store.folder.join("other");
    fs::write(&other, "somebody's").unwrap();
    symlink(&other, store.folder.join(UNFINISHED)).unwrap();
    store.save(&later(1, 1)).unwrap();
    assert_eq!(fs::read(&other).unwrap(), b"somebody's");
    assert_eq!(load(&mut store), Some(later(1, 1)));
}

/// Gives files to another user, and returns the user who opens them. Only root can give files away; other users open
/// them as another user.
fn chown_to_stranger(paths: &[&Path]) -> u32 {
    let own = rustix::process::geteuid().as_raw();
    if own != 0 {
        return own + 1;
    }
    for path in paths {
        chown(path, Some(4242), None).unwrap();
    }
    own
}

#[test]
fn files_of_somebody_else_are_not_read() {
    let (_folder, mut store) = store();
    store.save(&later(1, 1)).unwrap();
    store.save(&later(1, 2)).unwrap();
    let [newest, before] = [NEWEST, BEFORE].map(|name| store.folder.join(name));
    store.own = chown_to_stranger(&[&newest, &before]);
    assert_eq!(store.load(&owner(), Ok), Loaded::Unusable);
    assert_eq!(
        names(&store),
        [BEFORE, NEWEST].map(|name| format!("{name}.{ASIDE}"))
    );
}

#[test]
fn a_folder_of_somebody_else_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let own = chown_to_stranger(&[folder.path()]);
    for mode in [0o755, 0o777] {
        fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
        let refusal = Store::open_as(folder.path(), OPENED, own).unwrap_err();
        assert!(matches!(refusal, CheckpointError::NotOwned { .. }), "{refusal}");
    }
}

/// The record of a node whose last frame starvation spoiled.
fn starved() -> CheckpointFile {
    let before = record(1, 2);
    let lapse = headroom_domain::estimate::Lapse {
        frame: 2,
        now: Duration::from_secs(2),
        boot: Boot::Same,
    };
    let timing = Profile::Production.timing();
    let mut estimator = Estimator::resume(timing, before.snapshot.clone(), lapse).unwrap();
    estimator.end_frame(&Frame {
        index: 2,
        is_bound: true,
        peak: PerResource {
            cpu: 64_000,
            memory: 1 << 30,
        },
        ..Frame::default()
    });
    CheckpointFile {
        snapshot: estimator.snapshot(Duration::from_secs(3)),
        ..before
    }
}

#[test]
fn what_was_seen_of_a_spoiled_frame_is_kept() {
    let (_folder, mut store) = store();
    store.save(&starved()).unwrap();
    assert_eq!(load(&mut store), Some(starved()));
}

/// Agents of this version that do not know of such frames read the same file, and write one without them.
#[test]
fn agents_of_this_version_that_forget_spoiled_frames_read_and_are_read() {
    let bytes = encoded(&starved());
    let read = format::decode::<(Duration, CheckpointFile)>(OWN.version, &bytes);
    let ((since, forgetful), _) = read.unwrap();
    assert_eq!((since, forgetful.owner.clone()), (OPENED, owner()));
    assert_ne!(forgetful, starved());
    let bytes = format::encode(OWN.version, &(OPENED, &forgetful)).unwrap();
    assert_eq!(OWN.decode(&bytes).unwrap().record, forgetful);
}

/// The record of a node with two pods of one controller.
fn owned() -> CheckpointFile {
    let request = PodRequest {
        workload: Some(Workload {
            controller: 7,
            version: 8,
        }),
        ..PodRequest::default()
    };
    record_of(request, 2, 3)
}

#[test]
fn controllers_of_pods_are_kept() {
    let (_folder, mut store) = store();
    store.save(&owned()).unwrap();
    let loaded = load(&mut store).unwrap();
    assert_eq!(loaded.snapshot.lineages().len(), 2);
    assert_eq!(loaded, owned());
}

/// Agents of this version that know of spoiled frames alone stop reading after them.
#[test]
fn agents_of_this_version_that_forget_controllers_read_and_are_read() {
    let bytes = encoded(&owned());
    let read = format::decode::<(Duration, CheckpointFile)>(OWN.version, &bytes);
    let ((_, forgetful), rest) = read.unwrap();
    let bounds: schema::Bounds = postcard::from_bytes(rest).unwrap();
    assert_eq!(bounds, schema::Bounds::default());
    assert_ne!(forgetful, owned());
    let bytes = format::encode(OWN.version, &(OPENED, &forgetful, bounds)).unwrap();
    assert_eq!(OWN.decode(&bytes).unwrap().record, forgetful);
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
        let mut framed = encoded(&record(0, 1))[..12].to_vec();
        framed.extend(u32::try_from(bytes.len()).unwrap().to_le_bytes());
        proptest::prop_assert!(OWN.decode(&bytes).is_err());
        proptest::prop_assert!(OWN.decode(&framed).is_err());
        // Even where the checksum matches.
        if let Ok(record) = postcard::from_bytes::<CheckpointFile>(&bytes) {
            let lapse = headroom_domain::estimate::Lapse {
                frame: 1,
                now: Duration::ZERO,
                boot: Boot::Other { gap: Some(Duration::ZERO) },
            };
            let _may_be_refused = Estimator::resume(Profile::Production.timing(), record.snapshot, lapse).is_ok();
        }
    }
}
