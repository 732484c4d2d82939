//! Which sentences about how much is seen are logged: each when it begins to hold, and none again while nothing is new.

use headroom_domain::hint::Sight;
use tracing::{info, warn};

use super::{Blindness, Senses};

/// What was said last.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// Of what the CPUs are measured with.
    senses: String,
    blindness: Option<Blindness>,
}

/// A line for the log.
#[derive(Debug, PartialEq, Eq)]
struct News {
    /// The mode that begins; `None` if it stays as it is.
    mode: Option<Sight>,
    is_warning: bool,
    sentence: String,
}

impl Said {
    /// Logs what is new. Of an agent that is blind, how it would see otherwise is said, too: why there are no kernel
    /// programs does not wait for a hint server.
    pub(super) fn say(&mut self, senses: &Senses, blindness: Option<&Blindness>) {
        for News {
            mode,
            is_warning,
            sentence,
        } in self.news(senses, blindness)
        {
            let mode = mode.map(Sight::name);
            if is_warning {
                warn!(mode, "{sentence}");
            } else {
                info!(mode, "{sentence}");
            }
        }
    }

    fn news(&mut self, senses: &Senses, blindness: Option<&Blindness>) -> Vec<News> {
        let (sight, sentence) = senses.mode(None);
        let mode = blindness.is_none().then_some(sight);
        let mut news = Vec::new();
        if sentence != self.senses {
            self.senses.clone_from(&sentence);
            news.push(News {
                mode,
                is_warning: sight != Sight::Full || senses.is_missing_hooks(),
                sentence,
            });
        }
        if blindness == self.blindness.as_ref() {
            return news;
        }
        self.blindness = blindness.cloned();
        match blindness {
            Some(blindness) => news.push(News {
                mode: Some(Sight::Blind),
                is_warning: matches!(blindness, Blindness::Capacity { .. }),
                sentence: blindness.to_string(),
            }),
            None if news.is_empty() => news.push(News {
                mode,
                is_warning: false,
                sentence: "the agent is blind no more and sees as it said before".to_owned(),
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

    fn senses(origin: Origin, shed: Shed) -> Senses {
        Senses {
            origin,
            verdicts: Vec::new(),
            obstacle: Some("so it is".to_owned()),
            shed,
            is_calm: false,
        }
    }

    /// Modes and whether a warning tells of them, with the first words of what is said.
    fn told(
        said: &mut Said,
        senses: &Senses,
        blindness: Option<&Blindness>,
    ) -> Vec<(Option<Sight>, bool, String)> {
        let first_words = |sentence: &str| sentence.split(' ').take(3).collect::<Vec<_>>().join(" ");
        let news = said.news(senses, blindness).into_iter();
        news.map(|news| (news.mode, news.is_warning, first_words(&news.sentence)))
            .collect()
    }

    fn line(mode: Option<Sight>, is_warning: bool, words: &str) -> (Option<Sight>, bool, String) {
        (mode, is_warning, words.to_owned())
    }

    #[test]
    fn a_spell_of_blindness_is_said_and_what_was_said_before_is_not_said_again() {
        let (mut said, procfs) = (Said::default(), senses(Origin::Procfs, Shed::Nothing));
        assert_eq!(
            told(&mut said, &procfs, Some(&Blindness::NoDirective)),
            [
                line(None, true, "CPU use comes"),
                line(Some(Sight::Blind), false, "no hint server")
            ]
        );
        assert_eq!(told(&mut said, &procfs, Some(&Blindness::NoDirective)), []);
        let sees = [line(Some(Sight::Proc), false, "the agent is")];
        assert_eq!(told(&mut said, &procfs, None), sees);
        assert_eq!(told(&mut said, &procfs, None), []);
        let other = Blindness::Capacity {
            resource: Resource::Cpu,
            machine: 4000,
            node: 8000,
        };
        assert_eq!(
            told(&mut said, &procfs, Some(&other)),
            [line(Some(Sight::Blind), true, "the machine has")]
        );
        assert_eq!(told(&mut said, &procfs, None), sees);
    }

    #[test]
    fn each_change_of_what_is_seen_is_said_once_with_its_sentence() {
        let mut said = Said::default();
        let full = senses(Origin::Ebpf, Shed::Nothing);
        let sees = [line(Some(Sight::Full), false, "kernel programs count")];
        assert_eq!(told(&mut said, &full, None), sees);
        let shedding = [line(Some(Sight::FullShed), true, "a CPU switches")];
        for shed in [Shed::To64, Shed::To512] {
            let less = senses(Origin::Ebpf, shed);
            assert_eq!(told(&mut said, &less, None), shedding);
            assert_eq!(told(&mut said, &less, None), []);
        }
        assert_eq!(told(&mut said, &full, None), sees);
        assert_eq!(
            told(&mut said, &senses(Origin::Procfs, Shed::Nothing), None),
            [line(Some(Sight::Proc), true, "CPU use comes")]
        );
    }
}
