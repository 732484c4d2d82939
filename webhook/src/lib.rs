//! The admission webhook and hint service.
