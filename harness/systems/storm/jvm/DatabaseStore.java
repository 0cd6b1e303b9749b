package lostack;

import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.Base64;
import java.util.Map;
import org.apache.storm.topology.FailedException;

/**
 * Versions in a table of a database, each with the id of its transaction beside it: what a batch changes is one commit.
 *
 * The value before is kept in another spelling: the wire takes a commit to be about each record that it can read in it.
 */
final class DatabaseStore implements Trident.Store {
    private static final String GET = "SELECT value, transaction, before FROM state WHERE key = ?";
    private static final String PUT = "INSERT INTO state (key, value, transaction, before) VALUES (?, ?, ?, ?) ON CONFLICT (key)"
        + " DO UPDATE SET value = excluded.value, transaction = excluded.transaction, before = excluded.before";
    private final Connection database;

    DatabaseStore(Map<String, String> told) {
        try {
            database = DriverManager.getConnection(told.get("database"));
        } catch (SQLException error) {
            throw new IllegalStateException("no database for the state: " + error, error);
        }
    }

    @Override
    public Trident.Version get(String key) {
        try (PreparedStatement ask = database.prepareStatement(GET)) {
            ask.setString(1, key);
            try (ResultSet row = ask.executeQuery()) {
                if (!row.next()) {
                    return null;
                }
                String before = row.getString(3);
                return new Trident.Version(row.getLong(2), Trident.Folded.of(row.getBytes(1)),
                    before == null ? null : Trident.Folded.of(Base64.getDecoder().decode(before)));
            }
        } catch (SQLException error) {
            throw new FailedException("the state of " + key + " cannot be read", error);
        }
    }

    @Override
    public void put(Map<String, Trident.Version> versions) {
        try (PreparedStatement tell = database.prepareStatement(PUT)) {
            database.setAutoCommit(false);
            for (Map.Entry<String, Trident.Version> each : versions.entrySet()) {
                Trident.Folded before = each.getValue().before();
                tell.setString(1, each.getKey());
                tell.setBytes(2, each.getValue().value().value());
                tell.setLong(3, each.getValue().transaction());
                tell.setString(4, before == null ? null
                    : new String(Base64.getEncoder().encode(before.value()), StandardCharsets.US_ASCII));
                tell.executeUpdate();
            }
            database.commit();
            database.setAutoCommit(true);
        } catch (SQLException error) {
            throw new FailedException("the state is not written", error);
        }
    }
}
