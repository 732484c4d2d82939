//! [`Alone`] keeps one CPU free of other tasks: all tasks that can be moved stay on the other CPUs until it is
//! dropped.
//!
//! Some kernels run threads that the tracepoint of switches does not report, such as DAMON's for five milliseconds
//! per second. Measurements on the same CPU as such threads prove nothing.

use std::{fs, path::Path};

use rustix::{
    process::Pid,
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};

/// Moves the tasks back on drop.
#[derive(Debug)]
pub struct Alone {
    moved: Vec<(Pid, CpuSet)>,
}

impl Alone {
    /// Moves all tasks off `cpu` that may run elsewhere and can be moved; per-CPU kernel threads stay. Tasks that
    /// start later may run there.
    pub fn on(cpu: u32) -> Self {
        let tasks = numbers(Path::new("/proc"))
            .flat_map(|process| numbers(&Path::new("/proc").join(process.to_string()).join("task")));
        Self {
            moved: tasks
                .filter_map(|task| moved_off(Pid::from_raw(task)?, cpu))
                .collect(),
        }
    }
}

/// Entries of a folder whose names are numbers; empty if the folder does not exist.
fn numbers(folder: &Path) -> impl Iterator<Item = i32> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Moves a task off a CPU; returns its previous CPU set.
fn moved_off(task: Pid, cpu: u32) -> Option<(Pid, CpuSet)> {
    let before = sched_getaffinity(Some(task)).ok()?;
    let mut elsewhere = before;
    elsewhere.unset(cpu as usize);
    let is_only_there = !before.is_set(cpu as usize) || elsewhere.count() == 0;
    if is_only_there {
        return None;
    }
    sched_setaffinity(Some(task), &elsewhere).ok()?;
    Some((task, before))
}

impl Drop for Alone {
    fn drop(&mut self) {
        for (task, before) in &self.moved {
            // The task may have ended.
            let _ended = sched_setaffinity(Some(*task), before);
        }
    }
}
