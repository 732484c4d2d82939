//! [`Shadow`]: the steps whose refusals are sent as warnings, so that a rule can be observed before it is enforced.

use std::collections::BTreeSet;

/// Why a list of steps is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no step {name:?}; steps are {known}")]
pub struct ShadowError {
    name: String,
    /// All names that would be accepted.
    known: String,
}

/// The steps whose refusals are warnings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shadow(BTreeSet<&'static str>);

impl Shadow {
    /// Reads names separated by commas; an empty text has none.
    ///
    /// # Errors
    /// A name that is not among the known ones.
    pub fn parse(known: impl IntoIterator<Item = &'static str>, text: &str) -> Result<Self, ShadowError> {
        let known: BTreeSet<&'static str> = known.into_iter().collect();
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        let steps = names.map(|name| {
            known.get(name).copied().ok_or_else(|| ShadowError {
                name: name.to_owned(),
                known: known.iter().copied().collect::<Vec<_>>().join(", "),
            })
        });
        Ok(Self(steps.collect::<Result<_, _>>()?))
    }

    /// True if the step's refusals are warnings.
    pub fn has(&self, step: &str) -> bool {
        self.0.contains(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_steps_that_exist_can_be_shadowed() {
        let shadow = Shadow::parse(["ratio", "mode"], " mode ,").unwrap();
        assert!(shadow.has("mode") && !shadow.has("ratio"));
        assert_eq!(Shadow::parse(["ratio"], ""), Ok(Shadow::default()));
        let error = Shadow::parse(["ratio", "mode"], "mood").unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no step \"mood\"; steps are mode, ratio"
        );
    }
}
