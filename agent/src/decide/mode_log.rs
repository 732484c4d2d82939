//! `ModeLog` logs the sentence of the agent's mode when it changes, for `StatusView`. Each sentence is logged when it
//! begins to hold, and not again while nothing is new.

use headroom_domain::hint::AgentMode;
use tracing::{info, warn};

use super::BlindReason;
use crate::kernel::cpu_source::CpuSource;

#[derive(Debug, Default)]
pub(super) struct ModeLog {
    /// Sentence about the source of CPU use.
    source_sentence: String,
    blind_reason: Option<BlindReason>,
}

/// A line for the log.
#[derive(Debug, PartialEq, Eq)]
struct News {
    /// The mode that begins; `None` if it stays as it is.
    mode: Option<AgentMode>,
    is_warning: bool,
    sentence: String,
}

impl ModeLog {
    /// Logs changes. For a blind agent the mode without blindness is logged as well: the cause of missing kernel
    /// programs does not wait for a hint server.
    pub(super) fn log_changes(&mut self, cpu_source: &CpuSource, blind_reason: Option<&BlindReason>) {
        for News {
            mode,
            is_warning,
            sentence,
        } in self.news(cpu_source, blind_reason)
        {
            let mode = mode.map(AgentMode::name);
            if is_warning {
                warn!(mode, "{sentence}");
            } else {
                info!(mode, "{sentence}");
            }
        }
    }

    fn news(&mut self, cpu_source: &CpuSource, blind_reason: Option<&BlindReason>) -> Vec<News> {
        let (source_mode, sentence) = cpu_source.mode(None);
        let mode = blind_reason.is_none().then_some(source_mode);
        let mut news = Vec::new();
        if sentence != self.source_sentence {
            self.source_sentence.clone_from(&sentence);
            news.push(News {
                mode,
                is_warning: source_mode != AgentMode::Full || cpu_source.is_missing_hooks(),
                sentence,
            });
        }
        if blind_reason == self.blind_reason.as_ref() {
            return news;
        }
        self.blind_reason = blind_reason.cloned();
        match blind_reason {
            Some(blind_reason) => news.push(News {
                mode: Some(AgentMode::Blind),
                is_warning: matches!(blind_reason, BlindReason::Capacity { .. }),
                sentence: blind_reason.to_string(),
            }),
            None if news.is_empty() => news.push(News {
                mode,
                is_warning: false,
                sentence: "agent recovered; mode unchanged".to_owned(),
            }),
            None => {}
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use headroom_domain::resource::Resource;

    use super::*;
    use crate::{kernel::supervisor::Shed, sample::Origin};

    fn cpu_source(origin: Origin, shed: Shed) -> CpuSource {
        CpuSource {
            origin,
            verdicts: Vec::new(),
            obstacle: Some("so it is".to_owned()),
            shed,
            is_calm: false,
        }
    }

    /// Logged modes, their warning flag, and the first words of the log line.
    fn logged(
        log: &mut ModeLog,
        cpu_source: &CpuSource,
        blind_reason: Option<&BlindReason>,
    ) -> Vec<(Option<AgentMode>, bool, String)> {
        let first_words = |sentence: &str| sentence.split(' ').take(3).collect::<Vec<_>>().join(" ");
        let news = log.news(cpu_source, blind_reason).into_iter();
        news.map(|news| (news.mode, news.is_warning, first_words(&news.sentence)))
            .collect()
    }

    fn line(mode: Option<AgentMode>, is_warning: bool, words: &str) -> (Option<AgentMode>, bool, String) {
        (mode, is_warning, words.to_owned())
    }

    #[test]
    fn a_blind_spell_is_logged_and_an_unchanged_sentence_is_not_logged_again() {
        let (mut log, procfs) = (ModeLog::default(), cpu_source(Origin::Procfs, Shed::Nothing));
        assert_eq!(
            logged(&mut log, &procfs, Some(&BlindReason::NoDirective)),
            [
                line(None, true, "CPU use comes"),
                line(Some(AgentMode::Blind), false, "no directive from")
            ]
        );
        assert_eq!(logged(&mut log, &procfs, Some(&BlindReason::NoDirective)), []);
        let sees = [line(Some(AgentMode::Proc), false, "agent recovered; mode")];
        assert_eq!(logged(&mut log, &procfs, None), sees);
        assert_eq!(logged(&mut log, &procfs, None), []);
        let other = BlindReason::Capacity {
            resource: Resource::Cpu,
            machine: 4000,
            node: 8000,
        };
        assert_eq!(
            logged(&mut log, &procfs, Some(&other)),
            [line(Some(AgentMode::Blind), true, "the machine has")]
        );
        assert_eq!(logged(&mut log, &procfs, None), sees);
    }

    #[test]
    fn each_change_of_the_mode_is_logged_once_with_its_sentence() {
        let mut log = ModeLog::default();
        let full = cpu_source(Origin::Ebpf, Shed::Nothing);
        let sees = [line(Some(AgentMode::Full), false, "kernel programs count")];
        assert_eq!(logged(&mut log, &full, None), sees);
        let shedding = [line(Some(AgentMode::FullShed), true, "a CPU switches")];
        for shed in [Shed::To64, Shed::To512] {
            let less = cpu_source(Origin::Ebpf, shed);
            assert_eq!(logged(&mut log, &less, None), shedding);
            assert_eq!(logged(&mut log, &less, None), []);
        }
        assert_eq!(logged(&mut log, &full, None), sees);
        assert_eq!(
            logged(&mut log, &cpu_source(Origin::Procfs, Shed::Nothing), None),
            [line(Some(AgentMode::Proc), true, "CPU use comes")]
        );
    }

    #[test]
    fn a_recovery_that_changes_the_mode_is_one_line() {
        let mut log = ModeLog::default();
        let full = cpu_source(Origin::Ebpf, Shed::Nothing);
        log.news(&full, Some(&BlindReason::NoDirective));
        assert_eq!(
            logged(&mut log, &cpu_source(Origin::Procfs, Shed::Nothing), None),
            [line(Some(AgentMode::Proc), true, "CPU use comes")]
        );
    }
}
