//! `e2e-checkpoint FOLDER` saves numbered checkpoints one after the other and prints the number of each saved one.
//! `tests/process/checkpoint.rs` kills it at random times.
#![forbid(unsafe_code)]
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "part of the tests: its end is their failure, and they read what it says"
)]

use std::{env, path::Path, time::Duration};

use e2e::numbered_checkpoints;
use headroom_agent::local::checkpoint::{CheckpointFile, Store};

fn main() {
    let folder = env::args().nth(1).expect("a folder");
    let mut store = Store::open(Path::new(&folder), Duration::ZERO).expect("the folder");
    let before = numbered_checkpoints::number(&mut store).unwrap_or(0);
    let record = numbered_checkpoints::record();
    for number in before + 1.. {
        let record = CheckpointFile {
            wall: Duration::from_secs(number),
            ..record.clone()
        };
        store.save(&record).expect("save");
        println!("{number}");
    }
}
