//! The innermost cause of an error: what transports wrap around it says nothing more to people.

/// The innermost cause of an error, or the error.
pub(crate) fn innermost<'e>(
    error: &'e (dyn std::error::Error + 'static),
) -> &'e (dyn std::error::Error + 'static) {
    std::iter::successors(Some(error), |error| error.source())
        .last()
        .unwrap_or(error)
}
