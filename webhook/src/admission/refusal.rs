//! [`Refusal`]: the faults in an answer, for the client, and their wire form.

use std::fmt;

use headroom_domain::field::{self, Cause};
use headroom_rules::slo::strategies::Conflict;
use http::StatusCode;

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Denial {
    /// A value is not accepted.
    #[error("{field}: invalid value {value:?}: {reason}")]
    Value {
        /// The field, as in `metadata.annotations[key]`.
        field: String,
        value: String,
        /// Fault of the value.
        reason: String,
    },
    /// With these labels several entries of one key would select the Node. The text is Koordinator's.
    #[error("{}", conflict.koordinator_message(node))]
    Conflict {
        node: String,
        /// The key and its entries.
        conflict: Conflict,
    },
    /// One text for the whole object.
    #[error("{0}")]
    Text(String),
    /// Fault of each field, in Kubernetes' own words.
    #[error("{0}")]
    Fields(field::Errors),
    /// One text for the whole object, and the faults of each field.
    #[error("{text}")]
    Worded {
        text: String,
        /// Details about the fields.
        fields: field::Errors,
    },
    /// Several texts for the whole object, and the faults of each field.
    #[error("{}", list(texts))]
    Texts {
        texts: Vec<String>,
        /// Details about the fields.
        fields: field::Errors,
    },
}

/// Code and reason of the status that a refusal has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DenialStyle {
    /// The HTTP code inside the answer.
    pub code: StatusCode,
    /// The reason; `None` for a code alone.
    pub reason: Option<&'static str>,
}

/// Refusals of the steps of one endpoint; empty if there are none.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    style: DenialStyle,
    denials: Vec<Denial>,
}

impl DenialStyle {
    /// Koordinator's own: a code alone.
    pub const KOORDINATOR: Self = Self {
        code: StatusCode::BAD_REQUEST,
        reason: None,
    };
    /// Fluid's own for Datasets that cannot be used: the client tries again later.
    pub const FLUID: Self = Self {
        code: StatusCode::INTERNAL_SERVER_ERROR,
        reason: None,
    };
    pub const FORBIDDEN: Self = Self {
        code: StatusCode::FORBIDDEN,
        reason: Some("Forbidden"),
    };
    /// A value is not valid; the fields are in the details.
    pub const INVALID: Self = Self {
        code: StatusCode::UNPROCESSABLE_ENTITY,
        reason: Some("Invalid"),
    };
}

impl Refusal {
    /// Empty refusal; added denials have this style unless they set their own.
    pub const fn new(style: DenialStyle) -> Self {
        Self {
            style,
            denials: Vec::new(),
        }
    }

    pub fn push(&mut self, denial: Denial) {
        self.denials.push(denial);
    }

    /// True if nothing was refused.
    pub fn is_empty(&self) -> bool {
        self.denials.is_empty()
    }

    /// Code and reason: those that the first denial has of its own, else those of the endpoint.
    pub fn style(&self) -> DenialStyle {
        match self.denials.first() {
            Some(Denial::Conflict { .. }) => DenialStyle::KOORDINATOR,
            Some(
                Denial::Value { .. }
                | Denial::Text(_)
                | Denial::Fields(_)
                | Denial::Worded { .. }
                | Denial::Texts { .. },
            )
            | None => self.style,
        }
    }

    /// The causes of each field that is wrong, for the details of the status; a field's error stands once.
    pub fn causes(&self) -> Vec<Cause> {
        let mut errors = field::Errors::default();
        for denial in &self.denials {
            if let Denial::Fields(fields) | Denial::Worded { fields, .. } | Denial::Texts { fields, .. } =
                denial
            {
                fields.iter().for_each(|error| errors.push(error.clone()));
            }
        }
        errors.causes()
    }

    /// Each no, in order; the errors of fields one by one, and none that stood before.
    pub(crate) fn texts(&self) -> Vec<String> {
        let mut texts: Vec<String> = Vec::new();
        for denial in &self.denials {
            let more = match denial {
                Denial::Fields(fields) => fields.iter().map(ToString::to_string).collect(),
                Denial::Texts { texts, .. } => texts.clone(),
                Denial::Value { .. } | Denial::Conflict { .. } | Denial::Text(_) | Denial::Worded { .. } => {
                    vec![denial.to_string()]
                }
            };
            let fresh: Vec<String> = more.into_iter().filter(|text| !texts.contains(text)).collect();
            texts.extend(fresh);
        }
        texts
    }
}

impl From<Denial> for Refusal {
    fn from(denial: Denial) -> Self {
        Self {
            style: DenialStyle::FORBIDDEN,
            denials: vec![denial],
        }
    }
}

impl fmt::Display for Refusal {
    /// One as it is; several in brackets, as Kubernetes lists errors, or behind the first one if that is for the whole object.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = self.texts();
        let has_text_for_all = matches!(self.denials.first(), Some(Denial::Worded { .. }));
        f.write_str(&if has_text_for_all {
            texts.join("; ")
        } else {
            list(&texts)
        })
    }
}

fn list(texts: &[String]) -> String {
    match texts {
        [only] => only.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use headroom_domain::field::{Error, Errors, Path};

    use super::*;

    fn fields(errors: impl IntoIterator<Item = Error>) -> Denial {
        let mut list = Errors::default();
        errors.into_iter().for_each(|error| list.push(error));
        Denial::Fields(list)
    }

    fn missing(name: &str) -> Error {
        Error::required(&Path::new(name), "")
    }

    #[test]
    fn refusals_of_several_steps_are_one_list_without_repetition() {
        let mut refusal = Refusal::new(DenialStyle::KOORDINATOR);
        assert!(refusal.is_empty());
        refusal.push(fields([missing("a")]));
        assert_eq!(refusal.to_string(), "a: Required value");
        refusal.push(Denial::Text("no parent".to_owned()));
        refusal.push(fields([missing("b"), missing("a")]));
        assert_eq!(
            refusal.to_string(),
            "[a: Required value, no parent, b: Required value]"
        );
        let causes = refusal.causes();
        let causes: Vec<_> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(causes, ["a", "b"]);
        assert_eq!(refusal.style(), DenialStyle::KOORDINATOR);
    }

    #[test]
    fn a_text_for_all_leaves_the_fields_to_the_details() {
        let mut refusal = Refusal::new(DenialStyle::KOORDINATOR);
        let fields = [missing("a"), missing("b")].into_iter().collect();
        refusal.push(Denial::Worded {
            text: "no".to_owned(),
            fields,
        });
        assert_eq!(refusal.to_string(), "no");
        assert_eq!(refusal.causes().len(), 2);
    }
}
