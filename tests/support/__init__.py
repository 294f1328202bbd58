"""What several test folders share: builders of cases, images, ledgers, reports and servers."""
