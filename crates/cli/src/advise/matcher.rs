//! [`LabelMatcher`]: a condition on a label, which is added to every vector selector of a PromQL expression.

use std::{fmt, str::FromStr};

/// A condition on one label, as in `{cluster="prod"}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelMatcher {
    label: String,
    operator: &'static str,
    value: String,
}

/// The text is not a label, an operator and a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not LABEL=VALUE, LABEL!=VALUE, LABEL=~REGEX or LABEL!~REGEX, such as cluster=prod")]
pub struct LabelMatcherError;

/// Longest first: `=~` starts with `=`.
const OPERATORS: [&str; 4] = ["=~", "!~", "!=", "="];
/// Words after which a list of labels in parentheses may follow.
const LABEL_LISTS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
/// Other words that are no metric.
const WORDS: [&str; 8] = ["and", "or", "unless", "atan2", "offset", "bool", "inf", "nan"];

impl FromStr for LabelMatcher {
    type Err = LabelMatcherError;

    fn from_str(text: &str) -> Result<Self, LabelMatcherError> {
        let at = text.find(['=', '!']).ok_or(LabelMatcherError)?;
        let (label, rest) = text.split_at(at);
        let mut operators = OPERATORS.into_iter();
        let operator = operators.find(|operator| rest.starts_with(operator));
        let operator = operator.ok_or(LabelMatcherError)?;
        let (label, value) = (label.trim(), rest[operator.len()..].trim());
        let is_label = label.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && label
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        // As in PromQL, the value may have quotes.
        let unquoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        let value = unquoted.unwrap_or(value);
        if !is_label || label == "__name__" {
            return Err(LabelMatcherError);
        }
        Ok(Self {
            label: label.to_owned(),
            operator,
            value: value.to_owned(),
        })
    }
}

impl fmt::Display for LabelMatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            label,
            operator,
            value,
        } = self;
        let value = value
            .replace('\\', r"\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n");
        write!(f, "{label}{operator}\"{value}\"")
    }
}

/// Adds the matchers to every vector selector of an expression. An invalid expression stays invalid.
pub fn add_matchers(promql: &str, matchers: &[LabelMatcher]) -> String {
    if matchers.is_empty() {
        return promql.to_owned();
    }
    let added: Vec<String> = matchers.iter().map(ToString::to_string).collect();
    let added = added.join(",");
    let mut result = String::new();
    let mut rest = promql;
    while !rest.is_empty() {
        let (token, after) = rest.split_at(token_length(rest));
        result.push_str(token);
        rest = after;
        if token.starts_with('{') {
            rest = add_to_braces(rest, &added, &mut result);
        } else if is_word(token) {
            rest = add_after_word(token, rest, &added, &mut result);
        }
    }
    result
}

/// Handles the text after an opening brace. The matchers come first, because a list may be empty or end in a comma.
fn add_to_braces<'t>(rest: &'t str, added: &str, result: &mut String) -> &'t str {
    result.push_str(added);
    if !rest.trim_start().starts_with('}') {
        result.push(',');
    }
    copy_through('}', rest, result)
}

/// Handles the text after a word: a metric, function, aggregation or keyword.
fn add_after_word<'t>(word: &str, rest: &'t str, added: &str, result: &mut String) -> &'t str {
    let lower = word.to_ascii_lowercase();
    let next = rest.trim_start();
    if LABEL_LISTS.contains(&lower.as_str()) {
        return if next.starts_with('(') {
            copy_through(')', rest, result)
        } else {
            rest
        };
    }
    let next_word = &next[..token_length(next)];
    let is_aggregation = matches!(next_word.to_ascii_lowercase().as_str(), "by" | "without");
    let is_metric = !WORDS.contains(&lower.as_str()) && !next.starts_with('(') && !is_aggregation;
    if is_metric && !next.starts_with('{') {
        result.extend(["{", added, "}"]);
    }
    rest
}

/// Copies tokens up to and including the closing one.
fn copy_through<'t>(closing: char, mut rest: &'t str, result: &mut String) -> &'t str {
    while !rest.is_empty() {
        let (token, after) = rest.split_at(token_length(rest));
        result.push_str(token);
        rest = after;
        if token.starts_with(closing) {
            break;
        }
    }
    rest
}

fn is_word(token: &str) -> bool {
    token.starts_with(|first: char| first.is_ascii_alphabetic() || matches!(first, '_' | ':'))
}

/// Bytes of the first token: a word, a number, a string, a comment, a range in brackets, or one other character.
fn token_length(text: &str) -> usize {
    let Some(first) = text.chars().next() else {
        return 0;
    };
    let until = |end: fn(char) -> bool| text.find(end).unwrap_or(text.len());
    match first {
        '"' | '\'' | '`' => string_length(text, first),
        '#' => until(|letter| letter == '\n'),
        '[' => text.find(']').map_or(text.len(), |end| end + 1),
        // A number with its unit, as in 5m, 1e3 and 0x1F.
        '0'..='9' | '.' => until(|letter| !letter.is_ascii_alphanumeric() && !matches!(letter, '_' | '.')),
        _ if is_word(text) => until(|letter| !letter.is_ascii_alphanumeric() && !matches!(letter, '_' | ':')),
        _ => first.len_utf8(),
    }
}

fn string_length(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        if letter == quote && !is_escaped {
            return at + 1;
        }
        is_escaped = letter == '\\' && !is_escaped && quote != '`';
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("cluster=prod", r#"cluster="prod""#)]
    #[case(r#"cluster="prod""#, r#"cluster="prod""#)]
    #[case("cluster = a=b,c", r#"cluster="a=b,c""#)]
    #[case("cluster!=", r#"cluster!="""#)]
    #[case("_a=~eu-.*", r#"_a=~"eu-.*""#)]
    #[case("a!~b", r#"a!~"b""#)]
    #[case(r#"a=~\d"x"#, r#"a=~"\\d\"x""#)]
    fn a_matcher_is_written_as_promql(#[case] text: &str, #[case] promql: &str) {
        assert_eq!(text.parse::<LabelMatcher>().unwrap().to_string(), promql);
    }

    #[rstest]
    fn text_without_label_or_operator_is_refused(
        #[values("", "cluster", "=a", "a-b=c", "1a=b", "a!b", "__name__=up", "a{b=c")] text: &str,
    ) {
        assert_eq!(text.parse::<LabelMatcher>(), Err(LabelMatcherError));
    }

    #[rstest]
    #[case("up", r#"up{c="x"}"#)]
    #[case("up{}", r#"up{c="x"}"#)]
    #[case("up { a = \"}\" } offset 5m", "up {c=\"x\", a = \"}\" } offset 5m")]
    #[case(r#"{__name__=~"a|b"}"#, r#"{c="x",__name__=~"a|b"}"#)]
    #[case("sum by (node) (rate(a[5m]))", r#"sum by (node) (rate(a{c="x"}[5m]))"#)]
    #[case("sum(a) without (pod, b)", r#"sum(a{c="x"}) without (pod, b)"#)]
    #[case(
        "a * on (namespace) group_left (node) b{d='{'}",
        r#"a{c="x"} * on (namespace) group_left (node) b{c="x",d='{'}"#
    )]
    #[case("a + on(x) group_right b", r#"a{c="x"} + on(x) group_right b{c="x"}"#)]
    #[case(
        "max_over_time(job:a:rate1m[1h:5m] @ end()) > bool 1e3",
        r#"max_over_time(job:a:rate1m{c="x"}[1h:5m] @ end()) > bool 1e3"#
    )]
    #[case(
        "a and B UNLESS d or -Inf",
        r#"a{c="x"} and B{c="x"} UNLESS d{c="x"} or -Inf"#
    )]
    #[case("topk(3, a) # b\n/ 0x1F", "topk(3, a{c=\"x\"}) # b\n/ 0x1F")]
    #[case(
        "label_replace(a, \"d\", \"$1\", `e\\`, '\\'(.*)')",
        "label_replace(a{c=\"x\"}, \"d\", \"$1\", `e\\`, '\\'(.*)')"
    )]
    #[case("sum(", "sum(")]
    #[case("a{b=\"", "a{c=\"x\",b=\"")]
    fn every_selector_gets_the_matcher(#[case] promql: &str, #[case] expected: &str) {
        let matchers = ["c=x".parse().unwrap()];
        assert_eq!(add_matchers(promql, &matchers), expected);
        assert_eq!(add_matchers(promql, &[]), promql);
    }
}
