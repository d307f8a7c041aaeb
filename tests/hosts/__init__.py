"""Host projects in small: each package is an app as somebody would write it on top of this one."""
