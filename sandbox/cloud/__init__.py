"""EC2, Pricing and Cost Explorer, driven by botocore's service models."""
