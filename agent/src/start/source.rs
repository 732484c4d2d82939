//! Opens the source of CPU counters: the kernel programs, or procfs where they cannot be loaded. The reason for procfs
//! goes into the status.

use headroom_kit::log::chain;
use tracing::{info, warn};

use crate::{
    args::CpuSourceChoice,
    kernel::{
        cpu_source::CpuSource,
        probe::{self, Health, HookVerdict, Probe, ProbeError},
        supervisor::Shed,
    },
    local::status::{self, ProgramStatus},
    sample::{
        CounterSource, Origin, STAT_EVERY, SampleError, Sampler,
        clock::{self, Clocks},
        procfs::Procfs,
        procstat, ring,
    },
};

/// An open source of CPU counters.
#[derive(Debug)]
pub struct Opened {
    pub sampler: Sampler,
    /// The kernel programs, if they are the source.
    pub probe: Option<Probe>,
    /// The source, and the obstacle to the kernel programs.
    pub cpu_source: CpuSource,
}

/// Error of opening the requested source.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The kernel programs cannot be attached, and the flags exclude procfs.
    #[error("--source ebpf: the kernel programs cannot be attached; {}", .0.remedy())]
    Probe(#[source] ProbeError),
    /// CPU counters cannot be read.
    #[error("cannot measure the CPUs")]
    Sample(#[from] SampleError),
}

/// Opens the source. Loading the kernel programs blocks for about 50 ms.
///
/// # Errors
/// procfs cannot be read, or the kernel programs are required and cannot be attached.
pub fn open(source: CpuSourceChoice, options: &probe::Options, files: Procfs) -> Result<Opened, SourceError> {
    let obstacle = match source {
        CpuSourceChoice::Procfs => Obstacle {
            reason: "--source procfs; start the agent with --source auto to use kernel programs".to_owned(),
            verdicts: Vec::new(),
        },
        CpuSourceChoice::Auto | CpuSourceChoice::Ebpf => match Probe::load(options) {
            Ok(probe) => return kernel(probe, files),
            Err(error) if source == CpuSourceChoice::Ebpf => return Err(SourceError::Probe(error)),
            Err(error) => {
                // An error before the first hook is logged once, not for each hook.
                if let ProbeError::Refused { verdicts } = &error {
                    log_hooks(verdicts);
                }
                Obstacle {
                    reason: format!("{}; {}", chain(&error), error.remedy()),
                    verdicts: error.verdicts(),
                }
            }
        },
    };
    procfs(obstacle, files)
}

/// Reason why the kernel programs are not the source, with the remedy.
struct Obstacle {
    reason: String,
    verdicts: Vec<HookVerdict>,
}

fn kernel(mut probe: Probe, files: Procfs) -> Result<Opened, SourceError> {
    let verdicts = probe.verdicts().to_vec();
    log_hooks(&verdicts);
    let maps = probe
        .take_maps()
        .ok_or(SourceError::Probe(ProbeError::NotBuilt))?;
    let source = ring::RingSource::new(maps, ring::SAMPLING_SHIFT, probe.attached_ns())?;
    let sampler = sampler(Box::new(source), files)?;
    let cpu_source = CpuSource {
        origin: Origin::Ebpf,
        verdicts,
        obstacle: None,
        shed: Shed::Nothing,
        is_calm: false,
    };
    Ok(Opened {
        sampler,
        probe: Some(probe),
        cpu_source,
    })
}

fn procfs(obstacle: Obstacle, files: Procfs) -> Result<Opened, SourceError> {
    let Obstacle { reason, verdicts } = obstacle;
    let sampler = sampler(
        Box::new(procstat::ProcStatSource::new(clock::monotonic_ns())),
        files,
    )?;
    let cpu_source = CpuSource {
        origin: Origin::Procfs,
        verdicts,
        obstacle: Some(reason),
        shed: Shed::Nothing,
        is_calm: false,
    };
    Ok(Opened {
        sampler,
        probe: None,
        cpu_source,
    })
}

fn sampler(source: Box<dyn CounterSource>, files: Procfs) -> Result<Sampler, SampleError> {
    Sampler::new(source, files, STAT_EVERY, Clocks::read())
}

/// Logs the verdict on each hook.
fn log_hooks(verdicts: &[HookVerdict]) {
    for verdict in verdicts {
        let ProgramStatus {
            hook,
            health,
            flavour,
            reason,
            ..
        } = status::program(verdict);
        if verdict.health == Health::Ok {
            info!(hook, flavour, reason, "kernel program attached");
        } else {
            warn!(
                hook,
                health,
                reason,
                verifier_log = verdict.verifier_log,
                "kernel program not attached"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::probe::Hook;

    #[test]
    fn procfs_is_used_if_it_is_requested() {
        let opened = open(
            CpuSourceChoice::Procfs,
            &probe::Options::default(),
            Procfs::default(),
        )
        .unwrap();
        assert_eq!(
            (opened.cpu_source.origin, opened.probe.is_none()),
            (Origin::Procfs, true)
        );
        let sentence = opened.cpu_source.procfs();
        assert!(
            sentence.contains("the reason: --source procfs; start the agent with"),
            "{sentence}"
        );
    }

    #[test]
    fn without_kernel_programs_procfs_is_used_unless_they_are_required() {
        // A kernel without BTF.
        let options = probe::Options {
            btf: "/nonexistent/btf".into(),
            ..probe::Options::default()
        };
        let opened = open(CpuSourceChoice::Auto, &options, Procfs::default()).unwrap();
        let CpuSource {
            origin,
            verdicts,
            obstacle,
            ..
        } = opened.cpu_source;
        assert_eq!(
            (origin, verdicts.len()),
            (Origin::Procfs, Hook::ALL.len()),
            "each hook has a reason"
        );
        let obstacle = obstacle.unwrap();
        assert!(
            obstacle.contains("; mount /sys/kernel/btf") || !probe::is_built_in(),
            "{obstacle}"
        );
        let refusal = open(CpuSourceChoice::Ebpf, &options, Procfs::default()).unwrap_err();
        assert!(refusal.to_string().starts_with("--source ebpf"), "{refusal}");
    }

    #[test]
    fn a_machine_without_procfs_cannot_be_measured() {
        let files = Procfs::at("/nonexistent".as_ref(), "/nonexistent".as_ref());
        let refusal = open(CpuSourceChoice::Procfs, &probe::Options::default(), files).unwrap_err();
        assert!(
            chain(&refusal).to_string().contains("/nonexistent/stat"),
            "{}",
            chain(&refusal)
        );
    }
}
