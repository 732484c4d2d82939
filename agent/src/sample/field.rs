//! Parsers of single fields in the text files of procfs and cgroupfs, for the other readers in `sample`.

/// A field that was not found or not a number. The reader adds the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The field, or the line it should be on.
    pub field: String,
    /// Text found there; empty if there is none.
    pub found: String,
}

impl FieldError {
    pub(super) fn missing(field: &str) -> Self {
        Self {
            field: field.to_owned(),
            found: String::new(),
        }
    }
}

/// A number, or a fault that names the field.
pub(super) fn number<T: std::str::FromStr>(text: &str, field: &str) -> Result<T, FieldError> {
    text.parse().map_err(|_invalid| FieldError {
        field: field.to_owned(),
        found: text.to_owned(),
    })
}

/// The value after `name` and white space at the start of a line, as in `/proc/vmstat` and `memory.stat`.
pub(super) fn keyed(text: &str, name: &str) -> Result<Option<u64>, FieldError> {
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.map(|value| number(value.trim(), name)).transpose()
}

/// Like [`keyed`], where the value must be there.
pub(super) fn required(text: &str, name: &str) -> Result<u64, FieldError> {
    keyed(text, name)?.ok_or_else(|| FieldError::missing(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_whole_name() {
        let text = "pgscan_kswapd_high 7\npgscan_kswapd 3\nbroken x\n";
        assert_eq!(keyed(text, "pgscan_kswapd"), Ok(Some(3)));
        assert_eq!(keyed(text, "pgscan"), Ok(None));
        assert_eq!(
            keyed(text, "broken"),
            Err(FieldError {
                field: "broken".into(),
                found: "x".into()
            })
        );
        assert_eq!(required(text, "absent"), Err(FieldError::missing("absent")));
    }
}
