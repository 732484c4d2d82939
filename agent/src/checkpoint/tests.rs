//! Files that were saved, cut, bent, and brought from elsewhere.

use headroom_domain::{
    estimate::{Estimator, Frame, PodRequest, PodUse, Profile, View},
    policy::Policy,
    resource::PerResource,
};

use super::*;

fn owner() -> Owner {
    Owner {
        node: "n1".to_owned(),
        timing: "production".to_owned(),
    }
}

/// A record of a node with that many pods, each with numbers of many digits in every frame.
fn record(pods: u64, frames: u64) -> Record {
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
        pods: (0..pods).map(|pod| (uid(pod), PodRequest::default())).collect(),
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
    Record {
        owner: owner(),
        boot_id: "b1".to_owned(),
        wall: Duration::from_secs(1_700_000_000 + frames),
        snapshot: estimator.snapshot(Duration::from_secs(frames)),
    }
}

fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("made")).unwrap();
    (folder, store)
}

fn load(store: &Store) -> Option<Record> {
    store.load(&owner(), Ok)
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
    let (_folder, store) = store();
    assert_eq!(load(&store), None, "there is none yet");
    for frames in [1, 2, 3] {
        store.save(&record(2, frames)).unwrap();
        assert_eq!(load(&store), Some(record(2, frames)));
    }
    fs::remove_file(store.folder.join(NEWEST)).unwrap();
    assert_eq!(load(&store), Some(record(2, 2)));
    let mode = fs::metadata(&store.folder).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "what pods use is nobody else's business");
}

/// Section 2.6: at most 1.3 MB at 512 pods, whatever was measured.
#[test]
fn a_checkpoint_of_512_pods_fits() {
    let bytes = format::encode(&record(512, 300)).unwrap();
    assert!((1_179_648..=1_300_000).contains(&bytes.len()), "{}", bytes.len());
    let (_folder, store) = store();
    store.save(&record(512, 300)).unwrap();
    assert!(load(&store).is_some());
}

#[test]
fn what_is_of_no_use_is_set_aside_and_the_one_before_it_taken() {
    let good = format::encode(&record(1, 2)).unwrap();
    let bent = |at: usize, to: u8| {
        let mut bytes = good.clone();
        bytes[at] = to;
        bytes
    };
    let stranger = Record {
        owner: Owner {
            node: "n2".to_owned(),
            ..owner()
        },
        ..record(1, 2)
    };
    let demo = Record {
        owner: Owner {
            timing: "demo".to_owned(),
            ..owner()
        },
        ..record(1, 2)
    };
    let mut longer = good.clone();
    longer.push(0);
    let cases = [
        ("another program's", b"SQLite format 3\0".to_vec()),
        ("empty", Vec::new()),
        ("cut in the head", good[..10].to_vec()),
        ("cut in the record", good[..good.len() - 1].to_vec()),
        ("longer than it says", longer),
        ("of a newer version", bent(8, 2)),
        ("with a bent length", bent(13, good[13] ^ 1)),
        ("with a bent checksum", bent(17, good[17] ^ 1)),
        ("with a bent record", bent(100, good[100] ^ 1)),
        ("of another node", format::encode(&stranger).unwrap()),
        ("of another timing", format::encode(&demo).unwrap()),
        ("too large", vec![b'H'; 5 << 20]),
    ];
    for (case, bytes) in cases {
        let (_folder, store) = store();
        store.save(&record(1, 1)).unwrap();
        store.save(&record(1, 2)).unwrap();
        fs::write(store.folder.join(NEWEST), bytes).unwrap();
        assert_eq!(load(&store), Some(record(1, 1)), "{case}");
        assert_eq!(
            names(&store),
            [BEFORE.to_owned(), format!("{NEWEST}.{ASIDE}")],
            "{case}"
        );
        store.save(&record(1, 3)).unwrap();
        assert_eq!(load(&store), Some(record(1, 3)), "{case}: it goes on");
    }
}

#[test]
fn a_state_that_cannot_be_resumed_is_set_aside_too() {
    let (_folder, store) = store();
    store.save(&record(1, 1)).unwrap();
    store.save(&record(1, 2)).unwrap();
    let refuse = |_: Record| Err::<(), _>(ResumeError::Frames);
    assert_eq!(store.load(&owner(), refuse), None);
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
    let refusal = Store::open(&file).unwrap_err().to_string();
    assert_eq!(refusal, file.display().to_string());
    let (_folder, store) = store();
    fs::remove_dir(&store.folder).unwrap();
    assert!(store.save(&record(0, 1)).is_err());
    assert_eq!(load(&store), None);
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

/// The schema is what its number says: who changes what a record is made of raises [`format::VERSION`], and then this.
#[test]
fn the_bytes_of_version_1_are_these() {
    let bytes = format::encode(&record(1, 2)).unwrap();
    assert_eq!(format::VERSION, 1);
    assert_eq!((bytes.len(), crc32fast::hash(&bytes)), (2539, 750_026_236));
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
        let mut framed = format::encode(&record(0, 1)).unwrap()[..12].to_vec();
        framed.extend(u32::try_from(bytes.len()).unwrap().to_le_bytes());
        proptest::prop_assert!(format::decode(&bytes).is_err());
        proptest::prop_assert!(format::decode(&framed).is_err());
        // Even where the checksum matches.
        if let Ok(record) = postcard::from_bytes::<Record>(&bytes) {
            let lapse = headroom_domain::estimate::Lapse {
                frame: 1,
                now: Duration::ZERO,
                boot: Boot::Other { gap: Some(Duration::ZERO) },
            };
            let _may_be_refused = Estimator::resume(Profile::Production.timing(), record.snapshot, lapse).is_ok();
        }
    }
}
